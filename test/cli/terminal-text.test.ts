import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePinoLog } from '../../src/cli/log.ts';
import { makeColors, renderLine } from '../../src/cli/terminal-text.ts';
import type { Device } from '../../src/device/device.ts';
import { runCliInProcess } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiResponse, startService, type TestService } from '../support/service.ts';

/** ESC, BEL, CR, BS, DEL, the C1 form of CSI, NEL, RIGHT-TO-LEFT OVERRIDE, an isolate, LINE SEPARATOR, an invisible tag. */
const HOSTILE = '\u001b]0;owned\u0007\u001b[8m\r\b\u007f\u009b2J\u0085\u202e\u2066\u2028\u{e0041}';
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
/** The styles of the command line itself and of its log. */
const STYLES = new RegExp(`${String.fromCharCode(27)}\\[(?:1|2|22|31|32|33|35|36|39)m`, 'g');

/** Fails if the output contains anything but lines of text and styles. */
function expectPlain(output: string): void {
  for (const line of output.replace(STYLES, '').split('\n')) expect(line).not.toMatch(UNSAFE);
}

describe('texts of devices at a terminal', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let device: Device;
  let failed: ApiResponse['body'];
  let planId: string;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    device = await connect(await register(owner), {
      firmware: `1.4.2${HOSTILE}`,
      commands: {
        turn_on() {
          throw new Error(`jammed ${HOSTILE}`);
        },
      },
    });
    await device.report({ [`key ${HOSTILE}`]: HOSTILE });
    const path = `/v1/device/${device.deviceId}/command`;
    const sent = await owner.post(path, { action: 'turn_on' });
    failed = await waitForCommand(owner, sent.body.command_id, ({ status }) => status === 'failed');
    const steps = [{ id: 'one', device_id: device.deviceId, action: 'turn_on', params: {}, depends_on: [] }];
    const plan = await owner.post('/v1/plans', { name: 'Evening', on_failure: 'stop', steps });
    planId = plan.body.plan.id;
    await eventually(async () => (await owner.get(`/v1/plans/${planId}`)).body.plan.status === 'failed');
  });
  afterAll(async () => {
    await device?.close();
    await at?.stop();
  });

  const run = (...args: string[]) => runCliInProcess(args, { url: at.url, token: owner.token, terminal: true });

  it.each([
    ['devices get', () => ['devices', 'get', device.deviceId]],
    ['devices list', () => ['devices', 'list']],
    ['commands get', () => ['commands', 'get', failed.id]],
    ['command --wait', () => ['command', device.deviceId, 'turn_on', '--wait']],
    ['watch', () => ['watch', '--snapshot', '--count', '1']],
    ['plans show', () => ['plans', 'show', planId]],
    ['actors show', () => ['actors', 'show', 'device', device.deviceId]],
    ['actors journal', () => ['actors', 'journal', 'device', device.deviceId]],
    ['actors machines', () => ['actors', 'machines', 'device']],
  ])('%s prints them without control and formatting characters', async (_, args) => {
    for (const format of [[], ['--json']]) {
      const { stdout, stderr } = await run(...args(), ...format);
      expect(stdout).not.toBe('');
      expectPlain(stdout);
      expectPlain(stderr);
    }
  });

  it('the JSON output has the same value as the response', async () => {
    const { stdout } = await run('devices', 'get', device.deviceId, '--json');
    const { device: shown } = JSON.parse(stdout);
    expect(shown.state).toEqual({ [`key ${HOSTILE}`]: HOSTILE });
  });

  it('a firmware version and an error are stored as one printable line', async () => {
    const { body } = await owner.get(`/v1/devices/${device.deviceId}`);
    expect(body.device.firmware).toBe('1.4.2 ]0;owned [8m 2J');
    expect(failed.error).toBe('jammed  ]0;owned [8m 2J');
  });

  it('a firmware version and an error are stored up to their limits', async () => {
    const loud = await connect(await register(owner), { firmware: 'f'.repeat(5_000) });
    const { body } = await owner.get(`/v1/devices/${loud.deviceId}`);
    expect(body.device.firmware).toBe(`${'f'.repeat(127)}…`);
    await loud.close();
  });
});

describe('texts of a hostile service at a terminal', () => {
  it('are escaped in a refusal', async () => {
    const server = createServer((_request, response) => {
      response.writeHead(403, { 'content-type': 'application/problem+json' });
      const errors = [{ path: HOSTILE, message: HOSTILE }];
      response.end(JSON.stringify({ title: 'x', detail: HOSTILE, code: HOSTILE, request_id: HOSTILE, errors }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const { code, stderr } = await runCliInProcess(['whoami'], { url, token: 'x', terminal: true });
      expect(code).toBe(1);
      expect(stderr).toContain('\\u{1b}]0;owned\\u{7}');
      expectPlain(stderr);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });
});

describe('arguments of the command line', () => {
  const at = { url: 'http://127.0.0.1:1', token: 'x', terminal: true };

  it.each([
    ['an unknown command', [HOSTILE]],
    ['an unknown command of a group', ['keys', HOSTILE]],
    ['an unknown option', ['homes', `--${HOSTILE}`]],
    ['a wrong value', ['devices', 'list', '--limit', HOSTILE]],
    ['too many arguments', ['whoami', HOSTILE]],
  ])('are escaped in the error about %s', async (_, args) => {
    const { code, stdout, stderr } = await runCliInProcess(args, at);
    expect(code).toBe(2);
    expect(stderr).toContain('\\u{1b}]0;owned\\u{7}');
    expectPlain(stdout + stderr);
  });

  it('do not change the help, which has its lines', async () => {
    const { code, stdout } = await runCliInProcess(['--help'], at);
    expect(code).toBe(0);
    expect(stdout.split('\n').length).toBeGreaterThan(40);
    expectPlain(stdout);
  });
});

describe('a line', () => {
  it('has the styles of the command line only', () => {
    const { red } = makeColors(true);
    expect(renderLine(`a ${red('b\u001b[32mc')} d`)).toBe('a \u001b[31mb\\u{1b}[32mc\u001b[39m d');
    expect(renderLine(makeColors(false).red('b'))).toBe('b');
  });
});

describe('the log', () => {
  const write = (format: 'json' | 'pretty', isTTY: boolean): string => {
    const to = Object.assign(new PassThrough(), { isTTY });
    const log = makePinoLog({ level: 'info', format }, to);
    log.info({ topic: HOSTILE, [HOSTILE]: 1, err: new Error(HOSTILE) }, 'message refused');
    return String(to.read());
  };

  it('is plain on a terminal, in both formats', () => {
    for (const format of ['json', 'pretty'] as const) expectPlain(write(format, true));
    expect(write('pretty', true)).toContain('\\u{202e}');
    expect(JSON.parse(write('json', true))).toMatchObject({ topic: HOSTILE, [HOSTILE]: 1 });
  });

  it('is unchanged in a file of JSON lines', () => {
    expect(JSON.parse(write('json', false))).toMatchObject({ topic: HOSTILE });
  });
});
