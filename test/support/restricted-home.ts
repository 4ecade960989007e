import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import type { Device } from '../edges/mqtt/client.ts';
import { register } from './device.ts';
import { mcpClient } from './mcp.ts';
import { connectRawDevice } from './raw-device.ts';
import { type ApiClient, startService, type TestService } from './service.ts';

// A tenant with two homes, and API keys that are restricted to parts of it.

export type Name = 'lamp' | 'dimmer' | 'lock' | 'porch' | 'shed' | 'attic';
export const names: readonly Name[] = ['lamp', 'dimmer', 'lock', 'porch', 'shed', 'attic'];

export let at: TestService;
export let owner: Awaited<ReturnType<TestService['owner']>>;
export const home = { lake: '', city: '' };
export const room = { living: '', hall: '' };
export const id = {} as Record<Name, string>;
/** The answers to the registrations, with the secrets. */
export const registered = {} as Record<Name, Awaited<ReturnType<typeof register>>>;
export const closers: (() => unknown)[] = [];

const idIn = async (answer: ReturnType<ApiClient['post']>): Promise<string> => (await answer).body.id;

/** Starts a service with the tenant before the tests of the file, and stops it after them. */
export function withRestrictedHome(): void {
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    home.lake = owner.homeId;
    home.city = await idIn(owner.post('/v1/homes', { home_name: 'City' }));
    room.living = await idIn(owner.post(`/v1/homes/${home.lake}/rooms`, { name: 'Living room' }));
    room.hall = await idIn(owner.post(`/v1/homes/${home.lake}/rooms`, { name: 'Hall' }));
    const places: Record<Name, object> = {
      lamp: { device_type: 'smart_light', home_id: home.lake, room_id: room.living },
      dimmer: { device_type: 'smart_light', home_id: home.lake, room_id: room.hall },
      lock: { device_type: 'smart_lock', home_id: home.lake, room_id: room.living },
      porch: { device_type: 'smart_light', home_id: home.lake },
      shed: { device_type: 'smart_lock', home_id: home.city },
      attic: { device_type: 'smart_light', home_id: home.city },
    };
    for (const name of names) {
      registered[name] = await register(owner, places[name] as Record<string, unknown>);
      id[name] = registered[name].device_id;
    }
    expect((await owner.post('/v1/groups', { name: 'Evening', device_ids: [id.porch, id.shed] })).status).toBe(201);
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    for (const device of connected.values()) await (await device).mqtt.endAsync();
    await at?.stop();
  });
}

export const makeKey = async (
  restrict_to: object | undefined,
  scopes: readonly string[] = ['all'],
): Promise<string> => {
  const made = await owner.post('/v1/auth/api-keys', { name: 'restricted', scopes, restrict_to });
  expect([made.status, made.body.detail]).toEqual([201, undefined]);
  return made.body.key;
};
export const clientOf = async (restrict_to: object) => at.api(await makeKey(restrict_to));
export const idsIn = (entries: readonly { id: string }[]): string[] => entries.map(({ id }) => id).sort();
export const all = (...of: Name[]): string[] => of.map((name) => id[name]).sort();
export const livingLights = () => ({ rooms: [room.living], categories: ['light'] });

/** One connection for all tests: a device counts its messages over its sessions. */
const connected = new Map<Name, Promise<Device>>();
export function connectDevice(name: Name): Promise<Device> {
  const device = connected.get(name) ?? connectRawDevice(at, registered[name]);
  connected.set(name, device);
  return device;
}

export async function mcpOf(key: string): Promise<Client> {
  const client = await mcpClient(at.url, key);
  closers.push(() => client.close());
  return client;
}

export const graphql = async (key: string, query: string) => at.api(key).post('/graphql', { query });
