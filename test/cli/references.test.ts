import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { matchesOf } from '../../src/cli/references.ts';
import { runCliInProcess } from '../support/cli.ts';
import { connect, register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

describe('the candidates that match a text', () => {
  const candidates = [
    { id: '0195-a', names: ['Lamp'] },
    { id: '0195-b', names: ['Lamp 2'] },
    { id: '0196-c', names: ['lamp'] },
    { id: '0197-d', names: ['Kitchen', 'Flat/Kitchen'] },
    { id: '0198-e', names: ['Kitchen', 'Office/Kitchen'] },
    { id: 'lamp 2', names: [] },
  ];
  const idsOf = (text: string) => matchesOf(candidates, text).map(({ id }) => id);

  it.each([
    ['an id precedes a name', 'lamp 2', ['lamp 2']],
    ['a name precedes its beginning', 'Lamp', ['0195-a']],
    ['a name in another case is found', 'LAMP', ['0195-a', '0196-c']],
    ['the beginning of an id is found', '0196', ['0196-c']],
    ['a beginning of several ids means all', '0195', ['0195-a', '0195-b']],
    ['a name of several means all', 'kitchen', ['0197-d', '0198-e']],
    ['a room can be given with its home', 'office/kit', ['0198-e']],
    ['another text means none', 'fridge', []],
  ])('%s', (_, text, ids) => expect(idsOf(text)).toEqual(ids));
});

describe('the candidates that a whole text means', () => {
  it('are not those that begin with it', () => {
    const candidates = [
      { id: '0195-a', names: ['Lamp 10'] },
      { id: '0195-b', names: ['lamp 1'] },
    ];
    expect(matchesOf(candidates, 'Lamp 1', true).map(({ id }) => id)).toEqual(['0195-b']);
    expect(matchesOf(candidates.slice(0, 1), 'Lamp 1', true)).toEqual([]);
    expect(matchesOf(candidates.slice(0, 1), 'Lamp 1')).toHaveLength(1);
  });
});

describe('names on the command line', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let desk: string;
  let away: string;
  const commands = { turn_on: () => ({ state: { on: true } }), turn_off: () => ({ state: { on: false } }) };
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    const registered = await register(owner, { name: 'Desk lamp' });
    desk = registered.device_id;
    away = (await register(owner, { name: 'Desk fan' })).device_id;
    const device = await connect(registered, { commands });
    return () => device.close();
  });
  afterAll(() => at?.stop());

  const run = (...args: string[]) => runCliInProcess(args, { url: at.url, token: owner.token });
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout);

  /** Requests so far, by method and route. */
  async function requests(): Promise<Map<string, number>> {
    const text = await (await fetch(`${at.url}/metrics`)).text();
    const counts = new Map<string, number>();
    for (const [, route, method, count] of text.matchAll(
      /^twinkeep_http_requests_total\{route="([^"]+)",method="(\w+)",status="\d+"\} (\d+)$/gm,
    )) {
      const name = `${method} ${route}`;
      if (route !== '/metrics') counts.set(name, (counts.get(name) ?? 0) + Number(count));
    }
    return counts;
  }
  /** The requests that the commands in `work` send. */
  async function requestsOf(work: () => Promise<unknown>): Promise<Record<string, number>> {
    const before = await requests();
    await work();
    const after = [...(await requests())].map(([name, n]) => [name, n - (before.get(name) ?? 0)] as const);
    return Object.fromEntries(after.filter(([, n]) => n > 0));
  }

  it('find the device with that name, and the only one whose name or id begins so', async () => {
    for (const text of ['Desk lamp', 'desk LAMP', 'desk l', desk.toUpperCase()])
      expect((await json('devices', 'get', text)).device.id).toBe(desk);
    const sent = await run('command', 'desk l', 'turn_on', '--wait');
    expect([sent.code, sent.stderr]).toEqual([0, '']);
    expect((await json('commands', 'list', 'Desk lamp')).commands[0].action).toBe('turn_on');
    const prefix = [...desk].findIndex((character, n) => character !== away[n]) + 1;
    expect((await json('devices', 'get', desk.slice(0, prefix))).device.id).toBe(desk);
  });

  it('find the member whose commands are listed, in a range of times', async () => {
    const { command_id: id } = (await owner.post(`/v1/device/${desk}/command`, { action: 'turn_off' })).body;
    const listed = async (...args: string[]) =>
      (await json('commands', 'list', ...args)).commands.map((one: { id: string }) => one.id);
    const { timestamp } = (await owner.get(`/v1/commands/${id}`)).body.command;
    expect(await listed('--by', owner.userId, '--from', timestamp)).toContain(id);
    expect(await listed('--by', owner.userId, '--to', timestamp)).not.toContain(id);
    expect(await listed('--by', away)).toEqual([]);
  });

  it('that match several devices list them, and send nothing', async () => {
    const { code, stdout, stderr } = await run('command', 'desk', 'turn_on');
    expect([code, stdout]).toEqual([2, '']);
    const [message, ...candidates] = stderr.trimEnd().split('\n');
    expect(message).toBe("error: 'desk' matches 2 devices; give one of these ids:");
    expect(candidates.toSorted()).toEqual([`  ${away}  Desk fan`, `  ${desk}  Desk lamp`].toSorted());
    expect((await json('commands', 'list', away)).commands).toEqual([]);
  });

  it('that match none suggest the nearest', async () => {
    const { code, stderr } = await run('devices', 'revoke', 'Desk lapm');
    expect([code, stderr]).toEqual([
      ...[2, "error: no device has the id or name 'Desk lapm' (Did you mean 'Desk lamp'?)\n"],
    ]);
    expect(await run('devices', 'revoke', 'desk l')).toEqual({
      ...{ code: 2, stdout: '' },
      stderr:
        "error: no device has the id or name 'desk l': this command needs a whole one (Did you mean 'Desk lamp'?)\n",
    });
    expect((await run('devices', 'revoke', '')).stderr).toBe('error: the id or name of a device must not be empty\n');
  });

  it('cost one look-up, and ids none', async () => {
    const device = { 'GET /devices/{id}': 1 };
    expect(await requestsOf(() => run('devices', 'get', desk))).toEqual(device);
    expect(await requestsOf(() => run('devices', 'get', 'Desk lamp'))).toEqual({ ...device, 'GET /devices': 1 });
    expect(await requestsOf(() => run('devices', 'list', '--home', owner.homeId))).toEqual({ 'GET /devices': 1 });
  });

  it('of homes, rooms and groups can be values of options', async () => {
    const [flat, office] = [await json('homes', 'create', 'Flat'), await json('homes', 'create', 'Office')];
    const kitchen = await json('homes', 'add-room', 'flat', 'Kitchen');
    await json('homes', 'add-room', 'Office', 'Kitchen');
    const place = ['--home', 'Flat', '--room', 'kitchen'];
    const made = await json('devices', 'register', 'smart_light', ...place, '--name', 'Hob');
    expect((await json('devices', 'list', ...place)).devices.map(({ id }: { id: string }) => id)).toEqual([
      made.device_id,
    ]);
    const found = (await json('devices', 'list', '--room', 'flat/kitchen')).devices[0];
    expect([found.id, found.home_id, found.room_id]).toEqual([made.device_id, flat.id, kitchen.id]);
    const ambiguous = await run('devices', 'list', '--room', 'Kitchen');
    expect([ambiguous.code, ambiguous.stderr]).toEqual([2, expect.stringContaining('  Office/Kitchen\n')]);
    expect((await json('homes', 'rooms', 'Office')).rooms[0].home_id).toBe(office.id);

    const group = await owner.post('/v1/groups', { name: 'Evening lights', device_ids: [desk] });
    const { slug } = group.body;
    const create = (name: string, text: string) =>
      json('keys', 'create', name, '--scope', 'read:devices', '--room', 'flat/kitchen', '--group', text);
    expect(await requestsOf(() => create('One', slug))).not.toHaveProperty('GET /groups');
    for (const text of ['Evening lights', 'evening']) await create(text, text);
    const { keys } = await json('keys');
    for (const { restrict_to } of keys) expect(restrict_to).toEqual({ rooms: [kitchen.id], groups: [slug] });
  });

  it('of keys and members are found, and the prefix of a key costs no look-up', async () => {
    const key = await json('keys', 'create', 'Night shift', '--scope', 'read:devices');
    const next = await json('keys', 'rotate', 'night shift');
    expect((await run('keys', 'revoke', key.prefix.slice(0, 5))).code).toBe(2);
    expect(await requestsOf(() => run('keys', 'revoke', next.prefix))).toEqual({ 'POST /auth/api-keys/revoke': 1 });
    // Its name has the form of a prefix.
    const named = await json('keys', 'create', 'Frontend', '--scope', 'read:devices');
    expect((await run('keys', 'revoke', 'Frontend')).stdout).toBe(`${named.prefix} revoked\n`);

    await json('members', 'invite', 'bea@example.com', '--role', 'viewer');
    expect((await run('members', 'role', 'bea@example.com', 'user')).stdout).toMatch(/role +user/);
    expect((await run('audit', '--by', 'nobody@example.com')).code).toBe(2);
    expect((await run('members', 'remove', 'bea@example.com')).code).toBe(0);
    expect((await json('members')).members.map(({ email }: { email: string }) => email)).not.toContain(
      'bea@example.com',
    );
  });

  it('of plans are found', async () => {
    const steps = [{ id: 'a', device_id: away, action: 'turn_on' }];
    const { body } = await owner.post('/v1/plans', { name: 'Good night', steps });
    expect((await json('plans', 'show', 'good')).plan.id).toBe(body.plan.id);
    expect((await run('plans', 'cancel', 'Good night')).code).toBe(0);
    expect((await json('actors', 'show', 'plan', 'Good night')).actor.id).toBe(body.plan.id);
  });

  it('need a list, and the refusal of the list points to ids', async () => {
    const key = await json('keys', 'create', 'Sender', '--scope', 'execute:commands');
    const send = (device: string) => runCliInProcess(['command', device, 'turn_on'], { url: at.url, token: key.key });
    expect((await send(desk)).code).toBe(0);
    const refused = await send('Desk lamp');
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^403 .*a whole id does not\.$/m)]);
  });
});
