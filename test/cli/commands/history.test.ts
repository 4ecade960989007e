import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { Device } from '../../edges/mqtt/client.ts';
import { runCli, runCliInProcess, startCli, startCliOnTerminal } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import { register } from '../../support/device.ts';
import { connectRawDevice } from '../../support/raw-device.ts';
import { startService, type TestService } from '../../support/service.ts';

const MINUTE = 60_000;
const ESCAPE = '\u001b';
const STYLE = new RegExp(`${ESCAPE}\\[\\d+m`, 'g');

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let env: Record<string, string>;
let id: string;
let device: Device;
let sequence = 0;
const report = (state: JsonObject, timestamp = at.clock.now()) =>
  device.send('state', { state }, { sequence: ++sequence, timestamp });

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  env = { TWINKEEP_URL: at.url, TWINKEEP_TOKEN: owner.token, TZ: 'Etc/GMT-2' };
  const registered = await register(owner, { name: 'Heat pump', device_type: 'environment_sensor' });
  id = registered.device_id;
  device = await connectRawDevice(at, registered);
  // The command line has the time of the machine: nothing is reported after now.
  const first = at.clock.now() - 3 * MINUTE;
  const modes = ['heat', 'heat', `off${ESCAPE}[2J`, 'heat'];
  for (const [n, mode] of modes.entries()) {
    await report({ temperature: 20 + n, mode, 'a.b': true, list: [1] }, first + n * MINUTE);
  }
});
afterAll(async () => {
  device?.mqtt.end(true);
  await at?.stop();
});

const run = (args: string[], terminal: { columns?: number } | null = null) =>
  runCliInProcess(['history', ...args], {
    ...{ url: at.url, token: env.TWINKEEP_TOKEN as string },
    ...(terminal && { terminal: true, ...terminal }),
  });

describe('twinkeep history', () => {
  it('prints a table into a pipe, of samples, changes and intervals', async () => {
    const raw = await run(['Heat pump', 'temperature', '--step', 'raw', '--last', '1h']);
    expect(raw).toMatchObject({ code: 0, stderr: '' });
    const lines = raw.stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^AT +VALUE +RECEIVED +SEQUENCE$/);
    expect(lines.slice(1).map((line) => line.split(/ +/)[1])).toEqual(['20', '21', '22', '23']);
    const changes = await run(['heat', 'mode', '--step', 'changes']);
    expect(changes.stdout.split('\n').slice(1, -1)).toHaveLength(3);
    const intervals = await run([id, 'temperature', '--step', '1d', '--agg', 'min,max,count']);
    expect(intervals.stdout).toMatch(/^AT +COUNT +MIN +MAX\n/);
    expect((await run([id, 'a\\.b', '--step', 'raw'])).stdout).toContain('true');
  });

  it('prints JSON and CSV, without characters that a terminal acts on', async () => {
    const { history } = JSON.parse((await run([id, 'mode', '--step', 'raw', '--json'])).stdout);
    expect(history.samples.map(({ value }: { value: string }) => value)).toEqual([
      'heat',
      'heat',
      `off${ESCAPE}[2J`,
      'heat',
    ]);
    const csv = await run([id, 'mode', '--step', 'raw', '--csv']);
    const [head, ...rows] = csv.stdout.trimEnd().split('\n');
    expect(head).toBe('"at","value","received_at","sequence_number"');
    expect(rows[2]).toMatch(/^"[^"]+Z","off\\u\{1b\}\[2J","[^"]+Z",3$/);
    const aggregates = await run([id, 'temperature', '--step', '1d', '--agg', 'mean', '--csv']);
    expect(aggregates.stdout).toMatch(/^"at","mean"\n/);
    for (const { stdout } of [csv, aggregates]) expect(stdout).not.toContain(ESCAPE);
  });

  it('draws a chart on a terminal, in its width, with the unit, local times and the range', async () => {
    for (const columns of [40, 100]) {
      const { code, stdout, stderr } = await run(['Heat', 'temperature', '--last', '10m'], { columns });
      expect([code, stderr]).toEqual([0, '']);
      const lines = stdout.split('\n').map((line) => line.replace(STYLE, ''));
      expect(lines[0]).toBe('temperature (°C) of Heat');
      expect(lines.slice(1, 16).every((line) => line.length <= columns)).toBe(true);
      expect(stdout).toMatch(/[\u2801-\u28ff]/);
      expect(lines.slice(16).join('\n')).toMatch(/^min 20, max 23; last 23; 4 samples, intervals of /);
    }
    const ascii = await run(['Heat', 'mode', '--last', '10m', '--ascii', '--step', 'raw'], { columns: 60 });
    expect(ascii.stdout.replace(STYLE, '')).toMatch(/^[\x20-\x7e\n]*$/);
    expect(ascii.stdout).toMatch(/heat \|[ .#]*#/);
    expect(ascii.stdout).toContain('off\\u{1b}[2J |');
  });

  it('draws a number that lasts as steps, with the unit of its property', async () => {
    const registered = await register(owner, { name: 'Valve' });
    const properties = { setting: { unit: 'l/h', history: 'change' } };
    await owner.post(`/v1/devices/${registered.device_id}/manifest`, { category: 'sensor', properties });
    const valve = await connectRawDevice(at, registered);
    const send = (setting: number, ago: number) =>
      valve.send('state', { state: { setting } }, { timestamp: at.clock.now() - ago * MINUTE });
    await send(10, 4);
    await send(20, 2);
    valve.mqtt.end(true);
    const terminal = { columns: 60 };
    const { stdout } = await run(['Valve', 'setting', '--last', '10m', '--ascii'], terminal);
    const lines = stdout.split('\n').map((line) => line.replace(STYLE, ''));
    expect(lines[0]).toBe('setting (l/h) of Valve');
    expect(lines.filter((line) => /\*{9,}/.test(line))).toHaveLength(2);
    // Before it was set, and after that.
    const later = await run(['Valve', 'setting', '--from', '90s', '--ascii'], terminal);
    expect(later.stdout).toMatch(/\*{40,}/);
  });

  it('names the properties of the device if nothing was reported', async () => {
    const { code, stdout, stderr } = await run([id, 'temprature']);
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toBe('none\nthe state of the device has: a\\.b, mode, temperature\n');
  });

  it('refuses options that contradict each other, with the way to the help', async () => {
    for (const args of [
      ['--last', '1h', '--from', '2h'],
      ['--last', 'soon'],
      ['--step', '1w'],
      ['--agg', 'sum'],
      ['--csv', '--json'],
      ['--follow', '--csv'],
      ['--count', '3'],
    ]) {
      const { code, stdout } = await run([id, 'temperature', ...args]);
      expect([args, code, stdout]).toEqual([args, 2, '']);
    }
    expect((await run([id])).stderr).toContain('(see --help)');
    expect((await run(['Oven', 'temperature'])).code).toBe(2);
  });
});

describe('twinkeep history --follow', () => {
  it('prints new samples of the property alone, and ends after --count', async () => {
    const following = startCli(['history', 'Heat pump', 'temperature', '--follow', '--count', '2', '--json'], env);
    await eventually(() => following.output.stderr.includes('watching temperature of Heat pump'));
    const late = at.clock.now() - MINUTE;
    await report({ mode: 'off' });
    await report({ temperature: 24 });
    await report({ temperature: 24.5 }, late);
    const { code, stdout } = await following.ended;
    expect(code).toBe(0);
    const samples = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(samples.map(({ value }) => value)).toEqual([24, 24.5]);
    expect(samples[1]).toEqual({
      ...{ at: new Date(late).toISOString(), value: 24.5, sequence_number: sequence },
      received_at: expect.stringMatching(/Z$/),
    });
    const raw = await run([id, 'temperature', '--step', 'raw', '--json']);
    expect(JSON.parse(raw.stdout).history.samples).toEqual(expect.arrayContaining(samples));
  });
});

describe('in a process', () => {
  it('a terminal of a locale without UTF-8 gets ASCII, and one with UTF-8 braille patterns', async () => {
    const draw = async (LC_ALL: string) =>
      (await startCliOnTerminal(['history', id, 'temperature', '--last', '30m'], { ...env, LC_ALL }).ended).stdout;
    expect(await draw('C.UTF-8')).toMatch(/[\u2801-\u28ff]/);
    const ascii = await draw('C');
    expect(ascii).toMatch(/\|[ ]*\*/);
    expect(ascii).not.toMatch(/[\u2500-\u28ff]/);
  });

  it('completes the properties of the device that is named before', async () => {
    const complete = async (...words: string[]) =>
      (await runCli(['complete', '--', 'history', ...words], env)).stdout.split('\n').filter((line) => line !== '');
    // The service may need more than the time limit of names on a busy machine.
    expect(await eventually(async () => (await complete('Heat pump', 'te'))[0])).toMatch(/^temperature\t24/);
    expect(await eventually(async () => (await complete(id, 'a'))[0])).toBe('a\\.b\ttrue');
    expect(await complete('No such device', '')).toEqual([]);
  });
});
