import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let lamp: string;
let commandId: string;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  await service.updateUser(mine.userId, { email: 'ada@example.com' });
  lamp = (await mine.register({ name: 'Desk lamp' })).device_id;
  await mine.connect(lamp);
  await mine.report(lamp, { on: false, brightness: 10 });
  service.clock.advance(3_600_000);
  commandId = (await mine.call('POST', `/device/${lamp}/command`, { action: 'turn_on' })).body.command_id;
  const ack = { type: 'ack.reported', commandId, known: true, ack: { status: 'succeeded' } };
  await mine.send(lamp, { ...ack, state: { on: true } });
});
afterAll(() => service.close());

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });

describe('twinkeep why', () => {
  it('prints the value, its cause and the chain of events', async () => {
    const { code, stdout, stderr } = await run('why', 'Desk lamp', 'on');
    expect([code, stderr]).toEqual([0, '']);
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^on is true since \S+Z$/);
    expect(lines[1]).toMatch(/^A command caused it: /);
    expect(lines[2]).toMatch(/^AT +KIND +EVENT +BY +ID$/);
    expect(lines[3]).toMatch(/report +The device reported true instead of false +-/);
    expect(lines[4]).toMatch(new RegExp(`command +Turn on succeeded +ada@example.com +${commandId}`));
  });

  it('explains the value at a time', async () => {
    const earlier = new Date(service.clock.now() - 1_800_000).toISOString();
    const { stdout } = await run('why', lamp, 'on', '--at', earlier, '--json');
    expect(JSON.parse(stdout).explanation).toMatchObject({ value: false, cause: { kind: 'device' } });
    const none = await run('why', lamp, 'humidity');
    expect(none.stdout).toBe('humidity is null\nThe history has no report of this property up to then.\n');
    expect(none.stderr).toBe('the state of the device has: brightness, on\n');
    expect((await run('why', lamp, 'humidity', '--json')).stderr).toBe('');
  });

  it('refuses a time that it does not understand', async () => {
    const { code, stderr } = await run('why', lamp, 'on', '--at', 'yesterday');
    expect([code, stderr]).toEqual([2, expect.stringContaining('It must be a duration such as 24h')]);
  });
});
