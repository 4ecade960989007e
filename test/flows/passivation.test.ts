import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { mapConcurrently } from '../support/map-concurrently.ts';
import { startService, type TestService } from '../support/service.ts';

const DEVICES = 200;
const LIVE = 50;
const BATCH = 100;

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const devices: Device[] = [];

beforeAll(async () => {
  at = await startService({ RATE_LIMITS: 'free=0' }, { limits: { runtime: { liveActors: LIVE } } });
  owner = await at.owner();
});
afterAll(async () => {
  await Promise.all(devices.map((device) => device.close(0)));
  await at.stop();
});

const live = async (): Promise<number> => {
  const { body } = await at.api().get('/metrics');
  const kinds = [...body.matchAll(/^twinkeep_actors_live\{kind="\w+"\} (\d+)$/gm)];
  expect(kinds).not.toEqual([]);
  return kinds.reduce((sum, [, many]) => sum + Number(many), 0);
};

it(`${DEVICES} devices work with ${LIVE} actors in memory`, async () => {
  // Actors with pending work are not passivated, so few may have work at a time.
  const registered = await mapConcurrently([...Array(DEVICES).keys()], () => register(owner));
  const commands = { set_brightness: ({ level }: { level?: unknown }) => ({ state: { brightness: level as number } }) };
  await mapConcurrently(registered, async (one) => devices.push(await connect(one, { commands })));
  await mapConcurrently(devices, (device) => device.report({ round: 1 }));
  expect(await live()).toBeLessThanOrEqual(LIVE * 1.1);
  await mapConcurrently(devices, (device) => device.report({ round: 2 }));
  expect(await live()).toBeLessThanOrEqual(LIVE * 1.1);

  for (let from = 0; from < DEVICES; from += BATCH) {
    const ids = devices.slice(from, from + BATCH).map(({ deviceId }) => deviceId);
    const requested = { device_ids: ids, action: 'set_brightness', params: { level: 7 } };
    const { status, body } = await owner.post('/v1/devices/command', requested);
    expect(status).toBe(200);
    expect(body.results.every((entry: { success: boolean }) => entry.success)).toBe(true);
  }
  await eventually(() => devices.every(({ state, waiting }) => state.brightness === 7 && waiting === 0));
  const states = await at.services.store.devices.states(owner.tenantId);
  expect(states).toHaveLength(DEVICES);
  for (const { state, stateVersion } of states) {
    expect([state, stateVersion]).toEqual([{ round: 2, brightness: 7 }, 3]);
  }
  await eventually(async () => (await live()) <= LIVE * 1.1);
});
