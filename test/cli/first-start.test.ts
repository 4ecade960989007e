import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { browserAt } from '../support/browser.ts';
import { type CliProcess, startCli, startCliOnTerminal } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { makeDeployment } from '../support/deployment.ts';

/** The first minutes of a user with `serve`, on a terminal and elsewhere. */
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-first-'));
const started: CliProcess[] = [];
afterAll(async () => {
  for (const one of started) await stop(one);
  rmSync(folder, { recursive: true, force: true });
});

const serve = (name: string, terminal: boolean, more: Record<string, string> = {}): CliProcess => {
  const env = {
    DATA_DIR: join(folder, name),
    PORT: '0',
    MQTT_PORT: '0',
    SIDECAR: 'off',
    LOG_LEVEL: 'error',
    NO_COLOR: '1',
    ...more,
  };
  const process = terminal ? startCliOnTerminal(['serve'], env) : startCli(['serve'], env);
  started.push(process);
  return process;
};
/** It finishes the requests in progress, and has then written everything. */
async function stop({ child, ended }: CliProcess): Promise<void> {
  child.kill();
  await ended;
}
const textOf = ({ output }: CliProcess): string => output.stdout + output.stderr;

let service: CliProcess;
let link: string;
/** A first start makes the database, which takes many seconds on a slow machine: it has a time limit of its own. */
beforeAll(async () => {
  service = serve('terminal', true);
  link = await eventually(() => /within ten minutes\): (\S+)/.exec(textOf(service))?.[1]);
});

it('on a terminal it shows a link that signs in once', async () => {
  const { origin, hash } = new URL(link);
  const browser = browserAt(origin);
  const signIn = () => browser.request('POST', '/v1/auth/session', { body: { token: hash.replace('#sign-in=', '') } });
  expect((await signIn()).status).toBe(204);
  expect((await browser.request('GET', '/v1/auth/me')).body.user).toMatchObject({ ext_id: 'me' });
  expect((await signIn()).status).toBe(401);
  await stop(service);
});

it('on a terminal it shows no link at a later start', async () => {
  const again = serve('terminal', true);
  await eventually(() => textOf(again).includes('Console: http'));
  await stop(again);
  expect(textOf(again)).not.toContain('Sign in');
});

it('elsewhere it shows where the console is, and nothing that signs in', async () => {
  const elsewhere = serve('elsewhere', false);
  const url = await eventually(() => /^Console: (\S+)$/m.exec(elsewhere.output.stderr)?.[1]);
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/console$/);
  await stop(elsewhere);
  expect(textOf(elsewhere)).not.toContain('Sign in');
});

it('behind another address it shows the console at that one', async () => {
  const { env, remove } = await makeDeployment();
  const behind = serve('behind', false, { ...env, PUBLIC_URL: 'https://twinkeep.example.com' });
  await eventually(() => textOf(behind).includes('Console: https://twinkeep.example.com/console\n'));
  await stop(behind);
  await remove();
});
