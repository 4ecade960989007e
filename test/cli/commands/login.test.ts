import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Api } from '../../../src/cli/api.ts';
import { userCode, waitForApproval } from '../../../src/cli/commands/login.ts';
import { readCredentials, saveCredential } from '../../../src/cli/credentials.ts';
import { userCodeOf } from '../../../src/services/handshakes.ts';
import { type Browser, browserAt } from '../../support/browser.ts';
import { startCli } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
let folder: string;
let file: string;
beforeAll(async () => {
  at = await startService();
});
afterAll(() => at.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-login-'));
  file = join(folder, 'twinkeep', 'credentials.json');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const begin = (args: readonly string[], more: Record<string, string> = {}) =>
  startCli(['--url', at.url, ...args], { XDG_CONFIG_HOME: folder, ...more });
const run = (...args: string[]) => begin(args).ended;

/** Approves the sign-in as a user does with the output of `login`. */
async function approve(sent: { stderr: string }, token: string, change?: (browser: Browser) => Promise<unknown>) {
  const [, link = '', typed = ''] = await eventually(() => /(http\S+)[\s\S]*there: (\w{6})/.exec(sent.stderr));
  const browser = browserAt(at.url);
  expect((await browser.request('GET', link)).status).toBe(200);
  await browser.request('POST', '/v1/auth/session', { body: { token } });
  await change?.(browser);
  const headers = { 'x-csrf-token': (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token };
  const body = { code: new URL(link).searchParams.get('code'), user_code: typed };
  return browser.request('POST', '/v1/auth/cli/approve', { body, headers });
}

describe('twinkeep login', () => {
  it('stores the token in a file that only its owner can read; other commands use it; logout revokes it', async () => {
    const { output: sent, ended } = begin(['login']);
    expect((await approve(sent, await at.token('ada', { email: 'ada@example.com' }))).status).toBe(200);
    const { code, stdout } = await ended;
    expect([code, stdout]).toEqual([0, expect.stringContaining(`Signed in to ${at.url} as ada@example.com`)]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(file)).mode & 0o777).toBe(0o700);
    const { [at.url]: kept } = readCredentials(file);
    expect(stdout + sent.stderr).not.toContain(kept?.token);

    const me = await run('whoami', '--json');
    expect(JSON.parse(me.stdout).user).toMatchObject({ ext_id: 'ada' });

    const out = await run('logout');
    expect([out.code, out.stdout]).toEqual([0, `Signed out of ${at.url}.\n`]);
    expect(readCredentials(file)).toEqual({});
    expect((await at.api(kept?.token).get('/v1/auth/me')).status).toBe(401);
    expect((await run('whoami')).code).toBe(2);
  });

  it('fails when wrong codes ended the sign-in', async () => {
    const { output: sent, ended } = begin(['login', '--json']);
    await approve(sent, await at.token('ada'), async (browser) => {
      const headers = { 'x-csrf-token': (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token };
      const code = new URL(/http\S+/.exec(sent.stderr)?.[0] ?? '').searchParams.get('code');
      for (let n = 0; n < 5; n++) {
        await browser.request('POST', '/v1/auth/cli/approve', { body: { code, user_code: 'AAAAAA' }, headers });
      }
    });
    const { code, stdout, stderr } = await ended;
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('run twinkeep login again');
    expect(existsSync(file)).toBe(false);
  });

  it('prints the code that the service expects', () => {
    for (const code of ['', 'x', 'uVn7yQ0Zr7mJ5n5vRkV4b7hQbF2x8m0iZ1o3pWc9sTk'])
      expect(userCode(code)).toBe(userCodeOf(code));
  });

  it('ends with 3 if the service does not answer', async () => {
    const { code } = await begin(['--url', 'http://127.0.0.1:9', 'login']).ended;
    expect(code).toBe(3);
  });
});

describe('the other commands', () => {
  const credential = async (life: number) => ({
    token: await at.token('kept'),
    expires_at: new Date(Date.now() + life).toISOString(),
    user: 'kept',
  });
  const whoami = async (more: Record<string, string> = {}, ...args: string[]) => {
    const { code, stdout, stderr } = await begin([...args, 'whoami', '--json'], more).ended;
    return code === 0 ? JSON.parse(stdout).user.ext_id : `${code} ${stderr}`;
  };

  it('prefer --token to TWINKEEP_TOKEN, and that to the stored token in the file that TWINKEEP_CREDENTIALS names', async () => {
    const elsewhere = join(folder, 'elsewhere.json');
    saveCredential(elsewhere, at.url, await credential(60_000));
    const env = { TWINKEEP_CREDENTIALS: elsewhere };
    expect(await whoami(env)).toBe('kept');
    const TWINKEEP_TOKEN = await at.token('of the environment');
    expect(await whoami({ ...env, TWINKEEP_TOKEN })).toBe('of the environment');
    expect(await whoami({ ...env, TWINKEEP_TOKEN }, '--token', await at.token('given'))).toBe('given');
  });

  it('require a new sign-in when the token has expired or belongs to another service', async () => {
    saveCredential(file, at.url, await credential(-1));
    expect(await whoami()).toMatch(/^2 .*has expired: run twinkeep login/);
    saveCredential(file, at.url, null);
    saveCredential(file, 'https://elsewhere.example', await credential(60_000));
    expect(await whoami()).toMatch(/^2 .*run twinkeep login/);
  });

  it('reject a file that other users can read, or that is malformed', async () => {
    saveCredential(file, at.url, await credential(60_000));
    chmodSync(file, 0o640);
    expect(await whoami()).toMatch(/^2 .*can be read by other users/);
    chmodSync(file, 0o600);
    for (const text of ['', '[]', 'null', '{"x": 1}', '{"x": {"token": 1}}']) {
      writeFileSync(file, text);
      expect(() => readCredentials(file)).toThrow('is not a valid credentials file');
    }
  });
});

describe('twinkeep logout', () => {
  it('reports that you were not signed in', async () => {
    expect((await run('logout')).stdout).toBe(`You were not signed in to ${at.url}.\n`);
    expect(JSON.parse((await run('logout', '--json')).stdout)).toEqual({ url: at.url, signed_in: false });
  });

  it('deletes the token while the service is unreachable, and prints until when it remains valid', async () => {
    mkdirSync(dirname(file), { recursive: true });
    const url = 'http://127.0.0.1:9';
    saveCredential(file, url, { token: 'x', expires_at: '2026-01-01T00:00:00.000Z', user: 'me' });
    const { code, stderr } = await begin(['--url', url, 'logout']).ended;
    expect([code, stderr]).toEqual([3, expect.stringContaining('valid until 2026-01-01')]);
    expect(readFileSync(file, 'utf8')).toBe('{}\n');
  });
});

describe('waiting for the approval', () => {
  afterEach(() => void vi.useRealTimers());

  /** A service whose responses depend on the elapsed minutes. */
  function waiting(answer: (minutes: number) => { status: number; body: object }) {
    vi.useFakeTimers();
    const began = Date.now();
    const request = async () => answer((Date.now() - began) / 60_000);
    return waitForApproval({ url: '', request } as unknown as Api, 'code', 'verifier');
  }

  it('continues for ten minutes after the page was opened', async () => {
    const polled = waiting((minutes) => {
      if (minutes < 9) return { status: 404, body: {} };
      return { status: 200, body: minutes < 18 ? { status: 'pending' } : { status: 'approved', access_token: 't' } };
    });
    await vi.advanceTimersByTimeAsync(18.1 * 60_000);
    expect(await polled).toMatchObject({ access_token: 't' });
  });

  it.each([
    ['open the page', 404],
    ['enter the code', 200],
  ])('ends when the user does not %s', async (_, status) => {
    const over = expect(waiting(() => ({ status, body: { status: 'pending' } }))).rejects.toThrow('in time');
    await vi.advanceTimersByTimeAsync(10.1 * 60_000);
    await over;
  });
});
