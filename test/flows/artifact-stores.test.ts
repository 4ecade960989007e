import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { postgresProgram } from '../support/programs.ts';
import { startService, type TestService } from '../support/service.ts';

const octets = { 'content-type': 'application/octet-stream' };

/** The scripts of docs/operations.md: from the folder to the database, and back. */
const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
const section = page.slice(page.indexOf('\n## Firmware artifacts\n'), page.indexOf('\n## Back up and restore\n'));
const [toDatabase = '', toFolder = ''] = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, script]) => script);

function run(script: string, { DATABASE_URL, DATA_DIR }: Record<string, string | undefined>): void {
  const path = `${dirname(postgresProgram('psql'))}:${process.env.PATH}`;
  const env = { PATH: path, LC_ALL: 'C', DATABASE_URL, DATA_DIR };
  // With `-e` the script ends at the first failure; the warnings of a failure are part of the error.
  expect(execFileSync('sh', ['-e', '-c', script], { env, encoding: 'utf8', stdio: 'pipe' })).toBe('');
}

async function uploadRelease(at: TestService, token: string, version: string, bytes: Buffer): Promise<string> {
  const owner = at.api(token);
  const { body } = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version });
  const response = await fetch(`${at.url}/v1/firmware/${body.id}/artifact`, {
    method: 'PUT',
    headers: { ...octets, authorization: `Bearer ${token}` },
    body: bytes,
  } as RequestInit);
  expect(response.status).toBe(200);
  return body.id;
}

async function download(at: TestService, token: string, id: string) {
  const { release } = (await at.api(token).get(`/v1/firmware/${id}`)).body;
  const { pathname, search } = new URL(release.url);
  const response = await fetch(`${at.url}${pathname}${search}`);
  return { status: response.status, bytes: Buffer.from(await response.arrayBuffer()) };
}

describe.runIf(inject('postgresUrl'))('artifacts', () => {
  let deployment: Deployment;
  let at: TestService | undefined;
  const folders: string[] = [];
  afterEach(async () => {
    await at?.stop();
    await deployment.remove();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });
  const restart = async (env: Record<string, string>): Promise<TestService> => {
    await at?.stop();
    at = await startService({ ...(deployment.env as Record<string, string>), ...env });
    return at;
  };
  const newFolder = (): string => {
    const folder = mkdtempSync(join(tmpdir(), 'twinkeep-moved-'));
    folders.push(folder);
    return folder;
  };

  it('are moved to the database and back by the documented scripts, and are gone elsewhere', async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    const [first, second] = [randomBytes(600_000), randomBytes(300_000)];
    let service = await restart({});
    const { token } = await service.owner();
    const one = await uploadRelease(service, token, '1.0.0', first);

    // Another machine: its folder has no artifacts.
    const elsewhere = { DATA_DIR: newFolder(), ARTIFACT_STORE: 'database' };
    service = await restart(elsewhere);
    expect((await download(service, token, one)).status).toBe(410);
    const two = await uploadRelease(service, token, '2.0.0', second);
    expect(readdirSync(elsewhere.DATA_DIR)).not.toContain('firmware');
    // While the service runs, and twice.
    for (let n = 0; n < 2; n++) run(toDatabase, deployment.env);
    expect(await download(service, token, one)).toEqual({ status: 200, bytes: first });
    expect(await download(service, token, two)).toEqual({ status: 200, bytes: second });

    const moved = { DATA_DIR: newFolder() };
    for (let n = 0; n < 2; n++) run(toFolder, { ...deployment.env, ...moved });
    service = await restart(moved);
    expect(await download(service, token, one)).toEqual({ status: 200, bytes: first });
    expect(await download(service, token, two)).toEqual({ status: 200, bytes: second });
  });
});
