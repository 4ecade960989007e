import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientSettingsTable, settingsTable } from '../../src/config/settings.ts';
import { type CliProcess, runCliInProcess, startCli } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';

/** The command line as a user runs it: in child processes, against a service that one of them runs. */
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-cli-'));
const dataDir = join(folder, 'data');
let env: Record<string, string> = {
  DATA_DIR: dataDir,
  PORT: '0',
  MQTT_PORT: '0',
  SIDECAR: 'off',
  RATE_LIMITS: 'free=0',
};
let service: CliProcess;

const begin = (args: readonly string[], more: Record<string, string> = {}) => startCli(args, { ...env, ...more });

const run = (...args: string[]) => begin(args).ended;
/** The same in this process, where a child process would add nothing to the test. */
const here = (...args: string[]) =>
  runCliInProcess(args, { url: env.TWINKEEP_URL ?? '', token: env.TWINKEEP_TOKEN ?? '' });

/** The response of a command with `--json`. */
async function json<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await here(...args, '--json');
  if (code !== 0) throw new Error(`${args.join(' ')}: ${code} ${stderr}`);
  return JSON.parse(stdout) as T;
}

beforeAll(async () => {
  service = begin(['serve']);
  const url = await eventually(() => /serves (\S+) and mqtt:/.exec(service.output.stderr)?.[1]);
  env = { ...env, TWINKEEP_URL: url };
  const token = await run('token', '--sub', 'me', '--email', 'me@example.com');
  env = { ...env, TWINKEEP_TOKEN: token.stdout.trim() };
});
afterAll(async () => {
  service.child.kill();
  await service.ended;
  rmSync(folder, { recursive: true, force: true });
});

describe('help', () => {
  it('lists every setting, on stdout', async () => {
    const { code, stdout, stderr } = await run('--help');
    expect([code, stderr]).toEqual([0, '']);
    for (const { name } of [...settingsTable, ...clientSettingsTable])
      expect(stdout).toMatch(new RegExp(`^ +${name} `, 'm'));
    expect(stdout).not.toContain('\u001b');
  });

  it('exists for every command', async () => {
    for (const verb of ['devices', 'simulate', 'watch', 'keys', 'members', 'firmware', 'admin']) {
      const { code, stdout } = await here(verb, '--help');
      expect(code).toBe(0);
      expect(stdout).toContain(`Usage: twinkeep ${verb}`);
      expect(stdout).toContain('--url');
    }
  });
});

describe('token', () => {
  it('prints only a token that the running service accepts', async () => {
    const { code, stdout, stderr } = await run('token', '--sub', 'somebody', '--ttl', '10m');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const me = await json<{ user: { ext_id: string } }>('whoami', '--token', stdout.trim());
    expect(me.user.ext_id).toBe('somebody');
  });

  it('refuses to make a key where no service has started, and creates nothing', async () => {
    const empty = join(folder, 'empty');
    const { code, stdout, stderr } = await begin(['token', '--sub', 'a'], { DATA_DIR: empty }).ended;
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`${join(empty, 'token-signing.jwk')} does not exist: no service has started`);
    expect(stderr).toContain('--new-key');
    expect(existsSync(empty)).toBe(false);
  });

  it('with --new-key creates the key file, readable by its owner only', async () => {
    const fresh = join(folder, 'fresh');
    const { code, stdout } = await begin(['token', '--sub', 'a', '--new-key'], { DATA_DIR: fresh }).ended;
    expect(code).toBe(0);
    expect(readdirSync(fresh)).toEqual(['token-signing.jwk']);
    expect(statSync(join(fresh, 'token-signing.jwk')).mode & 0o777).toBe(0o600);

    const foreign = await here('whoami', '--token', stdout.trim());
    expect(foreign.code).toBe(1);
    expect(foreign.stderr).toMatch(/^401 UNAUTHENTICATED /);
    expect(foreign.stderr).toContain('needs the DATA_DIR or TOKEN_SIGNING_KEY of this service');
  });
});

describe('an exit code', () => {
  it.each([
    ['an unknown command', ['nonsense']],
    ['no command', []],
    ['a missing argument', ['confirm']],
    ['a bad option', ['token', '--sub', 'a', '--ttl', 'long']],
    ['an unknown scope', ['token', '--sub', 'a', '--scope', 'raed:devices']],
    ['a lifetime over 24 hours', ['token', '--sub', 'a', '--ttl', '2d']],
    ['an invalid URL', ['--url', 'nowhere', 'whoami']],
  ])('is 2 for %s', async (_, args) => {
    const { code, stdout, stderr } = await here(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).not.toBe('');
  });

  it('is 2 for an invalid setting, with one line that names it', async () => {
    const { code, stderr } = await begin(['serve'], { PORT: 'http' }).ended;
    expect([code, stderr]).toEqual([2, 'error: PORT must be a whole number from 0 to 65535\n']);
  });

  it('is 2 for a data folder in use by another service, whose process is named', async () => {
    const { code, stderr } = await run('serve');
    expect(code).toBe(2);
    expect(stderr).toContain(`pid ${service.child.pid}`);
    expect(stderr).toContain(dataDir);
  });

  it('is 2 without a token', async () => {
    const { code, stderr } = await begin(['whoami'], { TWINKEEP_TOKEN: '' }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain('TWINKEEP_TOKEN');
  });

  it('is 1 for a refusal, which is printed on stderr', async () => {
    const { code, stdout, stderr } = await here('devices', '--token', 'nonsense');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^401 UNAUTHENTICATED /);
  });

  it('is 3 if the service does not answer', async () => {
    const { code, stderr } = await here('devices', '--url', 'http://127.0.0.1:1');
    expect(code).toBe(3);
    expect(stderr).toMatch(/^error: http:\/\/127\.0\.0\.1:1 does not answer/);
  });
});

describe('a home on the command line', () => {
  it('is created, filled with simulated devices, commanded and watched', async () => {
    expect((await here('register-tenant', 'My company')).code).toBe(0);
    const home = (await here('homes', 'create', 'My flat', '--timezone', 'Europe/Berlin')).stdout.trim();
    const registered = await json<{ device_id: string; device_secret: string }>(
      ...['devices', 'register', 'smart_light', '--home', home, '--name', 'Spare lamp'],
    );
    expect(registered.device_secret).toHaveLength(43);

    const watching = begin(['watch', '--json', '--snapshot']);
    await eventually(async () => {
      const metrics = await (await fetch(`${env.TWINKEEP_URL}/metrics`)).text();
      return /^twinkeep_websocket_connections_open 1$/m.test(metrics) || null;
    });
    const simulation = begin(['simulate', '--devices', '5', '--rate', '10', '--json']);
    type List = { devices: { id: string; device_type: string }[]; count: number };
    const { devices } = await eventually(async () => {
      const list = await json<List>('devices', 'list', '--online');
      return list.devices.length === 5 ? list : null;
    });
    const [light = '', lock = ''] = ['smart_light', 'door_lock'].map(
      (type) => devices.find(({ device_type }) => device_type === type)?.id ?? '',
    );
    // A device is online before its first report.
    await eventually(async () => {
      const { device } = await json<{ device: { state: { locked?: boolean } } }>('devices', 'get', lock);
      return device.state.locked === true;
    });

    const dimmed = await json<{ status: string; verification: object }>(
      ...['command', light, 'set_brightness', 'level=40', '--wait'],
    );
    expect(dimmed).toMatchObject({ status: 'succeeded', verification: { status: 'verified' } });

    const critical = await run('command', lock, 'unlock');
    expect(critical.code).toBe(1);
    expect(critical.stdout).toContain('locked: true → false');
    const [, token = ''] = new RegExp(`twinkeep confirm ${lock} (\\S+)`).exec(critical.stdout) ?? [];
    const confirmed = await run('confirm', lock, token, '--wait');
    expect([confirmed.code, confirmed.stderr]).toEqual([0, '']);
    expect(confirmed.stdout).toMatch(/status +succeeded/);
    const again = await here('confirm', lock, token);
    expect([again.code, again.stderr.slice(0, 23)]).toEqual([1, '403 CONFIRMATION_FAILED']);

    const updates = await eventually(() => {
      const lines = watching.output.stdout.split('\n').filter((line) => line.endsWith('}'));
      const notified = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      const unlocked = notified.some(
        ({ device_id, state }) => device_id === lock && (state as { locked?: boolean })?.locked === false,
      );
      return unlocked ? notified : null;
    });
    expect(new Set(updates.map(({ type }) => type))).toEqual(
      new Set(['state_update', 'presence_update', 'command_update']),
    );
    watching.child.kill('SIGINT');
    expect((await watching.ended).code).toBe(0);

    simulation.child.kill('SIGINT');
    const simulated = await simulation.ended;
    expect(simulated.code).toBe(0);
    const lines = simulated.stdout.trim().split('\n');
    const last = JSON.parse(lines.at(-1) ?? '');
    expect(last).toMatchObject({ devices: 5, refused: 0, commands: 2 });
    // The thermostat and the sensor measure all day.
    expect(last.imported).toBeGreaterThan(400);
    expect(simulated.stderr).toContain(`imported ${last.imported} reports of the past`);
    expect((await json<List>('devices')).devices.map(({ id }) => id)).toEqual([registered.device_id]);

    expect((await here('devices', 'delete', registered.device_id)).code).toBe(1);
    expect((await here('devices', 'revoke', registered.device_id)).stdout).toBe('revoked\n');
    expect((await here('devices', 'delete', registered.device_id)).code).toBe(0);
    expect((await json<List>('devices')).count).toBe(0);
  });

  it('is shared with API keys and with other people', async () => {
    const made = await here(
      'keys',
      'create',
      'Night shift',
      '--scope',
      'read:homes',
      '--scope',
      'read:tenant',
      '--expires',
      '30d',
    );
    expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^twk_\w{8}_[0-9A-Za-z]{49}\n$/)]);
    const key = made.stdout.trim();
    const prefix = key.slice(4, 12);
    expect(made.stderr).toContain(`${prefix}: It is shown only once.`);
    expect((await here('homes', 'list', '--token', key)).code).toBe(0);
    expect((await here('devices', '--token', key)).stderr).toMatch(/^403 INSUFFICIENT_SCOPE /);
    const listed = await here('keys');
    expect(listed.stdout).toMatch(
      new RegExp(`^${prefix} +Night shift +read:homes read:tenant +- +\\S+Z +until \\S+Z$`, 'm'),
    );
    const { key: next } = await json<{ key: string }>('keys', 'rotate', prefix);
    expect((await here('homes', 'list', '--token', key)).stderr).toMatch(/^401 /);
    expect((await here('keys', 'revoke', next)).stdout).toBe(`${next.slice(4, 12)} revoked\n`);
    expect((await here('homes', 'list', '--token', next)).stderr).toMatch(/^401 /);
    expect((await here('keys')).stdout.match(/revoked /g)).toHaveLength(2);
    expect((await here('keys', 'create', 'x', '--scope', 'all', '--expires', 'soon')).code).toBe(2);
    expect(await here('keys', 'create', 'x')).toMatchObject({ code: 2, stdout: '' });
    expect((await here('keys', 'create', 'Everything', '--scope', 'all')).code).toBe(0);
    expect((await here('keys')).stdout).toMatch(/ Everything +all /);

    const bea = (await run('token', '--sub', 'bea', '--email', 'bea@example.com')).stdout.trim();
    expect((await here('members', 'invite', 'bea@example.com', '--role', 'viewer')).code).toBe(0);
    const requested = await here('whoami', '--token', bea);
    const [, id = ''] = /invited to My company as viewer: twinkeep members accept (\S+)/.exec(requested.stderr) ?? [];
    expect((await here('members', 'role', id, 'user')).stdout).toMatch(/role +user/);
    expect(await json('members', 'accept', id, '--token', bea)).toMatchObject({ role: 'user' });
    const { members } = await json<{ members: { id: string; email: string; status: string }[] }>('members');
    expect(members.map(({ email, status }) => [email, status])).toEqual([
      ['bea@example.com', 'active'],
      ['me@example.com', 'active'],
    ]);
    const [member = { id: '' }] = members;
    expect((await here('members', 'sessions', member.id)).stdout).toMatch(
      /^\S{36} +token +node +127\.0\.0\.1 +\S+Z +\S+Z$/m,
    );
    expect((await here('members', 'sign-out', member.id)).code).toBe(0);
    expect((await here('whoami', '--token', bea)).stderr).toMatch(/^401 /);
    expect((await here('members', 'remove', member.id)).code).toBe(0);
    expect((await here('members')).stdout).not.toContain('bea@example.com');
    expect((await here('members', 'remove', members[1]?.id ?? '')).stderr).toMatch(/^409 CONFLICT /);
  });

  it('lists and ends the sessions of its user', async () => {
    const own = async () => (await run('token', '--sub', 'sara')).stdout.trim();
    const [token, other] = [await own(), await own()];
    const as = (credential: string, ...args: string[]) => here(...args, '--token', credential);
    for (const one of [token, other]) expect((await as(one, 'whoami')).code).toBe(0);
    const listed = await as(token, 'sessions');
    expect(listed.stdout).toMatch(/^\S{36} \* +token /m);
    const [, id = ''] = /^(\S{36}) +token /m.exec(listed.stdout) ?? [];
    expect((await as(token, 'sessions', 'end', id)).code).toBe(0);
    expect((await as(other, 'whoami')).stderr).toMatch(/^401 /);
    expect((await as(token, 'sessions', 'end', id)).stderr).toMatch(/^404 NOT_FOUND /);
    expect((await as(token, 'sessions', 'end-all')).code).toBe(0);
    expect((await as(token, 'sessions')).stderr).toMatch(/^401 /);
  });

  it('reports an unknown event kind as a refusal', async () => {
    const { code, stderr } = await here('watch', '--events', 'weather');
    expect(code).toBe(1);
    expect(stderr).toContain('VALIDATION_FAILED');
  });
});

it('serve drains on SIGTERM and ends with 0', async () => {
  service.child.kill('SIGTERM');
  const { code, stdout } = await service.ended;
  expect(code).toBe(0);
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { msg: string }).msg)
      .at(-1),
  ).toBe('service stopped');
});
