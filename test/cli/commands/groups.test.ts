import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Device } from '../../../src/device/device.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { connect, register } from '../../support/device.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let lamp: Device;
let door: string;
beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const commands = {
    turn_on: () => ({ state: { on: true } }),
    set_brightness: ({ level }: { level?: unknown }) => ({ state: { brightness: Number(level) } }),
  };
  lamp = await connect(await register(owner, { name: 'Desk lamp' }), { commands });
  door = (await register(owner, { name: 'Front door', device_type: 'smart_lock' })).device_id;
});
afterAll(async () => {
  await lamp?.close();
  await at?.stop();
});

const run = (...args: string[]) => runCliInProcess(args, { url: at.url, token: owner.token });
async function json(...args: string[]) {
  const { code, stdout, stderr } = await run(...args, '--json');
  if (code !== 0) throw new Error(`${args.join(' ')}: ${code} ${stderr}`);
  return JSON.parse(stdout);
}

describe('twinkeep groups', () => {
  let slug: string;
  beforeEach(async () => {
    slug = (await run('groups', 'create', 'Evening lights', 'Desk lamp', '--description', 'At dusk')).stdout.trim();
    return async () => void (await run('groups', 'delete', slug));
  });

  it('deletes only a group whose whole name or slug is given, so that a repeated command deletes no other one', async () => {
    await run('groups', 'create', 'Evening');
    expect((await run('groups', 'delete', 'evening')).code).toBe(0);
    const again = await run('groups', 'delete', 'evening');
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('404')]);
    expect((await run('groups', 'delete', 'Evening li')).code).toBe(2);
    expect((await json('groups')).groups).toHaveLength(1);
  });

  it('creates, lists, shows and renames a group', async () => {
    expect((await json('groups')).groups).toEqual([
      { slug, name: 'Evening lights', description: 'At dusk', device_ids: [lamp.deviceId] },
    ]);
    expect((await run('groups')).stdout.split('\n')[1]?.split(/ {2,}/)).toEqual([
      ...[slug, 'Evening lights', '1', 'At dusk'],
    ]);
    expect((await run('groups', 'rename', 'evening', 'Night lights')).stdout).toBe(`${slug}  Night lights\n`);
    expect((await run('groups', 'show', 'Night lights')).stdout).toMatch(
      new RegExp(`name +Night lights\\n[\\s\\S]*  ${lamp.deviceId}\n$`),
    );
  });

  it('adds and removes devices, and deletes the group', async () => {
    expect((await run('groups', 'add', slug, 'front')).stdout.trim().split('\n').toSorted()).toEqual(
      [lamp.deviceId, door].toSorted(),
    );
    expect((await run('groups', 'remove', 'Evening lights', 'Front door')).code).toBe(0);
    expect((await json('groups', 'show', slug)).group.device_ids).toEqual([lamp.deviceId]);
    expect((await run('groups', 'remove', slug, door)).stderr).toMatch(/^404 NOT_FOUND /);
    expect((await run('groups', 'delete', 'evening lights')).code).toBe(0);
    expect((await json('groups')).groups).toEqual([]);
  });

  it('commands its devices', async () => {
    const sent = await run('groups', 'command', 'Evening lights', 'set_brightness', 'level=20');
    expect([sent.code, sent.stderr]).toEqual([0, '']);
    expect(sent.stdout).toMatch(/^Desk lamp +dispatched +[0-9a-f-]{36} +-$/m);
    const [command] = (await json('commands', 'list', 'Desk lamp')).commands;
    expect([command.action, command.params]).toEqual(['set_brightness', { level: 20 }]);
  });

  it('shows the ids of devices that have the same name', async () => {
    const ids = [1, 2].map(async () => (await register(owner, { name: 'Twin' })).device_id as string);
    const twins = await Promise.all(ids);
    await run('groups', 'add', slug, ...twins);
    const { stdout } = await run('groups', 'command', slug, 'turn_on');
    for (const twin of twins) expect(stdout).toMatch(new RegExp(`^${twin} +dispatched `, 'm'));
    expect(stdout).toMatch(/^Desk lamp +dispatched /m);
    for (const twin of twins) await owner.delete(`/v1/devices/${twin}`);
  });

  it('with a device that cannot do it ends with 1 and prints the reason', async () => {
    await run('groups', 'add', slug, door);
    const { code, stdout, stderr } = await run('groups', 'command', slug, 'turn_on');
    expect([code, stderr]).toEqual([1, 'error: not sent to 1 of 2 devices\n']);
    expect(stdout).toMatch(/^Front door +rejected .*ACTION_NOT_IN_MANIFEST: /m);
    expect(stdout).toMatch(/^Desk lamp +dispatched /m);
  });
});

describe('twinkeep devices', () => {
  it('renames a device', async () => {
    const { device_id: id } = await register(owner, { name: 'Old' });
    expect((await run('devices', 'rename', 'Old', 'New')).stdout).toMatch(/^name +New$/m);
    expect((await json('devices', 'get', id)).device.name).toBe('New');
  });

  it('moves a device between homes and rooms', async () => {
    const { device_id: id } = await register(owner, { name: 'Heater' });
    const [lake, attic] = [await json('homes', 'create', 'Lake house'), await json('homes', 'create', 'Attic')];
    const hall = await json('rooms', 'create', 'Lake house', 'Hall');
    await json('rooms', 'create', 'Attic', 'Hall');
    const placeOf = async () => {
      const { home_id, room_id } = (await json('devices', 'get', id)).device;
      return [home_id, room_id];
    };
    expect((await run('devices', 'move', 'Heater', '--home', 'lake')).code).toBe(0);
    // The room is one of the device's home.
    expect((await run('devices', 'move', 'Heater', '--room', 'Hall')).code).toBe(0);
    expect(await placeOf()).toEqual([lake.id, hall.id]);
    expect((await run('devices', 'move', 'Heater', '--no-room')).code).toBe(0);
    expect(await placeOf()).toEqual([lake.id, null]);
    await run('devices', 'move', 'Heater', '--home', 'Attic', '--room', 'hall');
    expect((await placeOf())[0]).toBe(attic.id);
    expect((await run('devices', 'move', 'Heater')).code).toBe(2);
  });

  it('commands several devices; one that is critical waits, and the command to confirm it is printed', async () => {
    const targets = ['--device', 'Desk lamp', '--device', 'Front door'];
    const { code, stdout, stderr } = await run('devices', 'command', 'reboot', ...targets);
    expect([code, stderr]).toEqual([1, 'error: not sent to 2 of 2 devices\n']);
    expect(stdout).toMatch(new RegExp(`^twinkeep confirm ${lamp.deviceId} [0-9a-f-]{36}$`, 'm'));
    const dry = await run('devices', 'command', 'reboot', ...targets, '--dry-run');
    expect([dry.code, dry.stderr]).toEqual([0, '']);
    expect((await run('devices', 'command', 'turn_on')).code).toBe(2);
  });
});

describe('twinkeep rooms and homes', () => {
  it('list, create, rename and command', async () => {
    const home = (await run('homes', 'create', 'Flat')).stdout.trim();
    expect((await run('homes', 'rename', 'Flat', 'Loft')).stdout).toBe(`${home}  Loft\n`);
    const room = (await run('rooms', 'create', 'Loft', 'Kitchen')).stdout.trim();
    expect((await run('rooms')).stdout).toMatch(new RegExp(`^${room} +Kitchen +Loft$`, 'm'));
    expect((await json('rooms', 'list', '--home', 'Loft')).rooms).toEqual([
      { id: room, name: 'Kitchen', home_id: home },
    ]);
    expect((await run('rooms', 'rename', 'Loft/Kitchen', 'Studio')).stdout).toBe(`${room}  Studio\n`);
    expect((await run('rooms', 'rename', room, 'Office')).code).toBe(0);
    expect((await run('rooms', 'rename', 'office', 'Library', '--home', 'Loft')).code).toBe(0);

    expect(await run('rooms', 'command', 'Library', 'turn_on')).toMatchObject({ code: 0, stderr: 'none\n' });
    await run('devices', 'move', 'Desk lamp', '--home', 'Loft', '--room', 'Library');
    const sent = await run('rooms', 'command', 'Library', 'turn_on', '--category', 'light');
    expect([sent.code, sent.stdout]).toEqual([0, expect.stringContaining('dispatched')]);
    expect(await run('rooms', 'command', room, 'turn_on', '--category', 'lock')).toMatchObject({ stderr: 'none\n' });
  });
});

describe('twinkeep intents', () => {
  it('command a device, a room or a group', async () => {
    const { stdout, code } = await run('intents', 'device', 'Desk lamp', 'set_brightness', 'level=40');
    expect([code, stdout.split('\n')[0]]).toEqual([0, 'success CLOUD_DIRECT']);
    expect(stdout).toContain('dispatched');
    const slug = (await run('groups', 'create', 'All', 'Desk lamp', 'Front door')).stdout.trim();
    const part = await run('intents', 'group', slug, 'set_brightness', 'level=41');
    expect([part.code, part.stdout.split('\n')[0]]).toEqual([1, 'partial CLOUD_DIRECT']);
    const room = await json('rooms', 'create', (await json('homes', 'create', 'Hut')).id, 'Den');
    expect((await json('intents', 'room', 'Hut/Den', 'turn_on')).results).toEqual([]);
    expect((await json('intents', 'room', room.id, 'turn_on', '--category', 'light')).status).toBe('SUCCESS');
  });

  it('with a critical action end with 1 and print the command to confirm it', async () => {
    const { code, stdout } = await run('intents', 'device', door, 'unlock');
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^pending [\s\S]*^twinkeep confirm /m)]);
  });
});

it('twinkeep manifest get and set are manifests get and put', async () => {
  const { stdout } = await run('manifest', 'get', 'Desk lamp');
  expect(stdout).toBe((await run('manifests', 'get', 'Desk lamp')).stdout);
  expect(await run('manifest', 'set', 'Desk lamp', '/nowhere.json')).toMatchObject({
    ...{ code: 2, stderr: expect.stringContaining('/nowhere.json') },
  });
});
