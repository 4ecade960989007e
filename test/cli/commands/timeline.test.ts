import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let lamp: string;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  await service.updateUser(mine.userId, { email: 'ada@example.com' });
  lamp = (await mine.register({ name: 'Desk lamp', room_id: mine.roomId })).device_id;
  await mine.call('POST', `/device/${lamp}/command`, { action: 'turn_on' });
  service.clock.advance(1_000);
  await mine.call('POST', `/device/${lamp}/command`, { action: 'fly' });
});
afterAll(() => service.close());

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });
const events = async (...args: string[]): Promise<[string, string][]> => {
  const { code, stdout, stderr } = await run('timeline', '--json', ...args);
  expect([args, code, stderr]).toEqual([args, 0, '']);
  return JSON.parse(stdout).entries.map(({ kind, text }: Record<string, string>) => [kind, text]);
};

describe('twinkeep timeline', () => {
  it('lists what happened to a device, a home and a room', async () => {
    const all = [
      ['refusal', expect.stringMatching(/^Fly was refused: /)],
      ['command', 'Turn on was dispatched'],
    ];
    expect(await events('Desk lamp')).toEqual(all);
    expect(await events('--home', mine.homeId)).toEqual(all);
    expect(await events('--home', mine.homeId, '--room', mine.roomId)).toEqual(all);
    expect(await events('--room', mine.roomId)).toEqual(all);
  });

  it('is limited to kinds and to a time', async () => {
    expect(await events(lamp, '--kind', 'command', '--kind', 'plan')).toEqual([['command', 'Turn on was dispatched']]);
    expect(await events(lamp, '--until', '2020-01-01')).toEqual([]);
    expect(await events(lamp, '--limit', '1')).toHaveLength(1);
  });

  it('prints a table with the user, and the device if it is of a place', async () => {
    const ofDevice = await run('timeline', lamp);
    expect(ofDevice.stdout).toMatch(/^AT +KIND +EVENT +BY\n.* refusal +Fly was refused: /);
    const ofHome = await run('timeline', '--home', mine.homeId, '--limit', '1');
    expect(ofHome.stdout).toMatch(/^AT +KIND +DEVICE +EVENT +BY\n.* refusal +Desk lamp +Fly was refused: /);
    expect(ofHome.stdout).toMatch(/ ada@example\.com$/m);
    const { entries } = JSON.parse((await run('timeline', lamp, '--json')).stdout);
    expect(entries.map(({ by }: { by: string }) => by)).toEqual([mine.userId, mine.userId]);
    expect(ofHome.stderr).toMatch(/^more: --cursor \S+\n$/);
  });

  it('shows the ids of users to a member who may not list them', async () => {
    const { code, stdout, stderr } = await runCliInProcess(['timeline', lamp], {
      ...{ url: service.url, token: mine.tokens.user },
    });
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(` ${mine.userId}$`, 'm'));
  });

  it('continues with the options that it prints, also after a duration', async () => {
    const first = await run('timeline', lamp, '--since', '1h', '--limit', '1');
    const more = /^more: (--since \S+Z --cursor \S+)\n$/.exec(first.stderr)?.[1]?.split(' ') ?? [];
    expect(more).toHaveLength(4);
    expect(await events(lamp, ...more)).toEqual([['command', 'Turn on was dispatched']]);
  });

  it('needs a device or a place, and not both', async () => {
    for (const args of [[], [lamp, '--home', mine.homeId]]) {
      const { code, stderr } = await run('timeline', ...args);
      expect([code, stderr]).toEqual([2, expect.stringContaining('give a device, or --home or --room')]);
    }
    expect((await run('timeline', lamp, '--since', 'yesterday')).stderr).toContain('It must be a duration such as 24h');
  });
});
