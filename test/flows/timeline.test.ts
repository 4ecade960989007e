import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let roomId: string;
let lock: ApiResponse['body'];
let lamp: ApiResponse['body'];
let unlocked: string;
let planId: string;
const devices: Device[] = [];

type Entry = Record<string, unknown> & { at: string; kind: string; text: string };

const entriesOf = async (path: string, caller: ApiClient = owner): Promise<Entry[]> => {
  const { status, body } = await caller.get(`/v1${path}`);
  expect([path, status, body.detail]).toEqual([path, 200, undefined]);
  return body.entries;
};
const lockPath = () => `/devices/${lock.device_id}/timeline`;
const homePath = () => `/homes/${owner.homeId}/timeline`;
const kindsIn = (entries: readonly Entry[]) => [...new Set(entries.map(({ kind }) => kind))].sort();

/** One step of the history, a second after the one before. */
const next = () => at.clock.advance(1_000);

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  roomId = (await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: 'Hall' })).body.id;
  lock = await register(owner, { device_type: 'smart_lock', name: 'Front door', room_id: roomId });
  lamp = await register(owner, { name: 'Lamp' });
  const door = await connect(lock, {
    state: { locked: true },
    firmware: '1.0.0',
    commands: {
      unlock: () => ({ state: { locked: false } }),
      lock: () => ({ state: { locked: true } }),
    },
  });
  devices.push(door);
  await eventually(async () => (await owner.get(`/v1/devices/${lock.device_id}`)).body.device.state.locked === true);
  const command = (body: object) => owner.post(`/v1/device/${lock.device_id}/command`, body);
  next();
  unlocked = (await command({ action: 'unlock' })).body.command_id;
  next();
  expect((await owner.post(`/v1/confirmations/${unlocked}/approve`)).status).toBe(202);
  await waitForCommand(owner, unlocked, ({ status }) => status === 'succeeded');
  next();
  expect((await command({ action: 'fly' })).body.code).toBe('ACTION_NOT_IN_MANIFEST');
  next();
  const asked = (await command({ action: 'unlock' })).body.command_id;
  next();
  expect((await owner.post(`/v1/confirmations/${asked}/refuse`, { reason: 'Not at night' })).status).toBe(200);
  next();
  const made = await owner.post('/v1/plans', {
    name: 'Evening',
    steps: [{ id: 'close', device_id: lock.device_id, action: 'lock', params: {} }],
  });
  planId = made.body.plan.id;
  await eventually(async () => (await owner.get(`/v1/plans/${planId}`)).body.plan.status === 'succeeded');
  next();
  await owner.post(`/v1/device/${lamp.device_id}/command`, { action: 'turn_on' });
  next();
  await door.close();
  await eventually(async () => (await entriesOf(lockPath()))[0]?.text === 'Went offline');
});
afterAll(async () => {
  for (const device of devices) await device.close();
  await at?.stop();
});

describe('the timeline of a device', () => {
  it('has its presence, commands, confirmations, plans and refusals, newest first, with who caused them', async () => {
    const entries = await entriesOf(lockPath());
    const mine = { by: owner.userId, credential: { kind: 'person' } };
    const device = { device_id: lock.device_id, device_name: 'Front door' };
    expect(entries).toMatchObject([
      { ...device, kind: 'presence', text: 'Went offline', by: null, credential: null, command_id: null },
      { ...device, ...mine, kind: 'plan', text: 'Step “close” of the plan “Evening”: Lock succeeded', plan_id: planId },
      { ...device, ...mine, kind: 'confirmation', decision: 'refused', status: 'cancelled', action: 'unlock' },
      { ...device, ...mine, kind: 'command', text: 'Unlock was cancelled', status: 'cancelled', plan_id: null },
      { ...device, ...mine, kind: 'refusal', code: 'ACTION_NOT_IN_MANIFEST', status: 'rejected', action: 'fly' },
      { ...device, ...mine, kind: 'confirmation', text: 'Unlock was confirmed', command_id: unlocked },
      { ...device, ...mine, kind: 'command', text: 'Unlock succeeded', command_id: unlocked, params: {} },
      { ...device, kind: 'firmware', text: 'Reported the firmware 1.0.0' },
      { ...device, kind: 'presence', text: 'Came online' },
    ]);
    expect(entries[2]?.text).toBe('The confirmation of “Unlock” was refused: Not at night');
    expect(entries[4]?.text).toMatch(/^Fly was refused: /);
    const times = entries.map((entry) => Date.parse(entry.at));
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    // The decision has its own time.
    expect((times[5] as number) - (times[6] as number)).toBeGreaterThanOrEqual(1_000);
  });

  it('continues over pages of any size without a gap or a repetition', async () => {
    const all = await entriesOf(lockPath());
    for (const limit of [1, 3]) {
      const seen: Entry[] = [];
      let more = '';
      do {
        const { status, body }: ApiResponse = await owner.get(`/v1${lockPath()}?limit=${limit}${more}`);
        expect([status, body.entries.length <= limit]).toEqual([200, true]);
        seen.push(...body.entries);
        more = body.next_cursor === null ? '' : `&cursor=${encodeURIComponent(body.next_cursor)}`;
      } while (more !== '');
      expect(seen).toEqual(all);
    }
  });

  it('is limited to kinds and to a range of time', async () => {
    const all = await entriesOf(lockPath());
    expect(kindsIn(await entriesOf(`${lockPath()}?kind=refusal&kind=confirmation`))).toEqual([
      'confirmation',
      'refusal',
    ]);
    expect(await entriesOf(`${lockPath()}?kind=plan`)).toEqual([all[1]]);
    const [, newest, , , oldest] = all as [Entry, Entry, Entry, Entry, Entry];
    expect(await entriesOf(`${lockPath()}?from=${oldest.at}&to=${newest.at}`)).toEqual(all.slice(2, 5));
  });

  it('refuses a cursor of another device and of other kinds', async () => {
    const { body } = await owner.get(`/v1${lockPath()}?limit=1`);
    const cursor = encodeURIComponent(body.next_cursor);
    for (const path of [`/devices/${lamp.device_id}/timeline?`, `${lockPath()}?kind=plan&`])
      expect((await owner.get(`/v1${path}cursor=${cursor}`)).body.code).toBe('VALIDATION_FAILED');
  });

  it('shows that the version of the firmware has changed', async () => {
    const again = await connect(lock, { state: { locked: true }, firmware: '1.1.0', initialSequence: 1_000 });
    devices.push(again);
    const [found] = await eventually(async () => {
      const entries = await entriesOf(`${lockPath()}?kind=firmware`);
      return entries.length > 1 ? entries : null;
    });
    expect(found).toMatchObject({ kind: 'firmware', text: 'Firmware changed from 1.0.0 to 1.1.0', by: null });
  });
});

describe('the timeline of a place', () => {
  it('has the devices that are in the home now', async () => {
    const entries = await entriesOf(`${homePath()}?kind=command`);
    expect(entries.map(({ device_name }) => device_name)).toEqual(['Lamp', 'Front door', 'Front door']);
    const other = (await owner.post('/v1/homes', { home_name: 'Empty' })).body.id;
    expect(await entriesOf(`/homes/${other}/timeline`)).toEqual([]);
  });

  it('has only the devices of the room', async () => {
    const path = `/homes/${owner.homeId}/rooms/${roomId}/timeline`;
    const entries = await entriesOf(path);
    expect(new Set(entries.map(({ device_id }) => device_id))).toEqual(new Set([lock.device_id]));
    const other = (await owner.post('/v1/homes', { home_name: 'Other' })).body.id;
    expect((await owner.get(`/v1/homes/${other}/rooms/${roomId}/timeline`)).status).toBe(404);
  });

  it('is the same in GraphQL', async () => {
    const query = `query ($home: ID!) { homeTimeline(homeId: $home, kind: [COMMAND, PLAN], first: 2) {
      nodes { kind text device { name } } leftOut devicesLeftOut pageInfo { hasNextPage } } }`;
    const { body } = await owner.post('/graphql', { query, variables: { home: owner.homeId } });
    expect(body).toMatchObject({
      data: {
        homeTimeline: {
          nodes: [
            { kind: 'COMMAND', device: { name: 'Lamp' } },
            { kind: 'PLAN', device: { name: 'Front door' } },
          ],
          ...{ leftOut: [], devicesLeftOut: 0, pageInfo: { hasNextPage: true } },
        },
      },
    });
  });
});

describe('a credential that may not read a source', () => {
  const keyWith = async (scopes: string[], restrict_to?: object) =>
    at.api((await owner.post('/v1/auth/api-keys', { name: 'k', scopes, restrict_to })).body.key);

  it.each([
    [['read:devices'], ['firmware', 'presence'], ['command', 'plan', 'confirmation', 'refusal']],
    [['read:devices', 'read:commands'], ['command', 'confirmation', 'firmware', 'presence', 'refusal'], ['plan']],
    [
      ['read:devices', 'read:commands', 'read:plans'],
      ['command', 'confirmation', 'firmware', 'plan', 'presence', 'refusal'],
      [],
    ],
  ])('with %j gets the other kinds, and is told which are left out', async (scopes, kinds, leftOut) => {
    const { body } = await (await keyWith(scopes)).get(`/v1${lockPath()}`);
    expect(kindsIn(body.entries)).toEqual(kinds);
    expect(body.left_out.toSorted()).toEqual(leftOut.toSorted());
    if (leftOut.includes('plan')) expect(JSON.stringify(body)).not.toMatch(new RegExp(`${planId}|Evening`));
  });

  it('gets nothing, not an error, if it requests only kinds that it may not read', async () => {
    const { status, body } = await (await keyWith(['read:devices'])).get(`/v1${lockPath()}?kind=command`);
    expect([status, body.entries, body.left_out]).toEqual([200, [], ['command']]);
  });

  it('needs read:homes for the timeline of a home', async () => {
    const { body } = await (await keyWith(['read:devices', 'read:commands'])).get(`/v1${homePath()}`);
    expect(body.code).toBe('INSUFFICIENT_SCOPE');
  });

  it('that is restricted gets only the devices that it reaches, and no plans', async () => {
    const lights = await keyWith(['all'], { devices: [lamp.device_id] });
    expect((await lights.get(`/v1${lockPath()}`)).status).toBe(404);
    const { body } = await lights.get(`/v1${homePath()}`);
    expect(body.entries.map(({ device_id }: Entry) => device_id)).toEqual([lamp.device_id]);
    expect(body.left_out).toEqual(['plan']);
    expect((await lights.get(`/v1/homes/${owner.homeId}/rooms/${roomId}/timeline`)).status).toBe(404);
  });

  it('of another tenant finds no device, home or room', async () => {
    const outsider = await at.owner();
    for (const path of [lockPath(), homePath(), `/homes/${owner.homeId}/rooms/${roomId}/timeline`])
      expect((await outsider.get(`/v1${path}`)).status).toBe(404);
  });
});
