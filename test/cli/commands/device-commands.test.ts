import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { register } from '../../support/device.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let light: string;
beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  light = (await register(owner)).device_id;
});
afterAll(() => at.stop());

const run = (params: string, input: string) =>
  runCliInProcess(['command', light, 'set_brightness', '--params', params], { url: at.url, token: owner.token, input });

it('twinkeep command reads parameters from stdin, so that they are not among its arguments', async () => {
  expect((await run('-', '{"level": 40}')).code).toBe(0);
  const [sent] = (await owner.get(`/v1/device/${light}/commands`)).body.commands;
  expect(sent).toMatchObject({ action: 'set_brightness', params: { level: 40 } });
  expect((await run('{"level": 50}', '')).code).toBe(0);
  for (const input of ['', 'level=40', '[40]']) {
    expect(await run('-', input)).toMatchObject({ code: 2, stderr: expect.stringContaining('JSON object') });
  }
});

it('twinkeep commands list prints how to continue a partial list, with the same filters', async () => {
  const list = (...args: string[]) =>
    runCliInProcess(['commands', 'list', light, '--by', owner.userId, ...args], { url: at.url, token: owner.token });
  for (const params of ['{"level": 60}', '{"level": 70}']) expect((await run(params, '')).code).toBe(0);
  const first = await list('--limit', '1');
  expect(first).toMatchObject({ code: 0, stdout: expect.stringContaining('{"level":70}') });
  const cursor = /^more: --cursor (\S+)\n$/.exec(first.stderr)?.[1] ?? '';
  const rest = await list('--cursor', cursor);
  expect(rest).toMatchObject({ code: 0, stdout: expect.stringContaining('{"level":60}'), stderr: '' });
  expect(rest.stdout).not.toContain('{"level":70}');
});

it('twinkeep commands list shows the names of devices, and their ids with --json', async () => {
  const lamp = (await register(owner, { name: 'Desk lamp' })).device_id;
  await owner.post(`/v1/device/${lamp}/command`, { action: 'turn_on' });
  const list = (...args: string[]) =>
    runCliInProcess(['commands', 'list', lamp, ...args], { url: at.url, token: owner.token });
  expect((await list()).stdout.split('\n')[1]?.split(/ {2,}/)[2]).toBe('Desk lamp');
  expect(JSON.parse((await list('--json')).stdout).commands).toMatchObject([{ device_id: lamp }]);
});
