import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { queryGraphql } from '../../support/graphql.ts';
import type { HttpService } from '../../support/http-service.ts';
import { recordingStore } from '../../support/recording-store.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

const { calls, around } = recordingStore();
let service: HttpService;
let mine: TestTenant;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase({}, around);
  mine = await makeTestTenant(service);
  for (let n = 0; n < 20; n++) {
    const home = await mine.call('POST', '/homes', { home_name: `Home ${n}` });
    const room = await mine.call('POST', `/homes/${home.body.id}/rooms`, { name: `Room ${n}` });
    await mine.register({ home_id: home.body.id, room_id: room.body.id, name: `Lamp ${n}` });
  }
});
afterAll(() => service.close());

/** Counts the store calls of a query, by name. */
async function storeCalls(query: string): Promise<Record<string, number>> {
  calls.length = 0;
  const { body } = await queryGraphql(service, query, { token: mine.tokens.owner });
  expect(body.errors).toBeUndefined();
  const counts: Record<string, number> = {};
  for (const call of calls) counts[call] = (counts[call] ?? 0) + 1;
  return counts;
}

describe('the fields of list entries', () => {
  it('are loaded with one query, for a list of any length', async () => {
    const fields =
      'id home { homeName rooms { name } } room { name home { homeName } } manifest { version } state battery';
    const query = (first: number) => `{ devices(first: ${first}) { edges { cursor node { ${fields} } } totalCount } }`;
    const two = await storeCalls(query(2));
    expect(await storeCalls(query(20))).toEqual(two);
    expect(two).toEqual({
      'devices.list': 1,
      'devices.count': 1,
      // The home of the device, and the home of its room.
      'records.findHomes': 2,
      'records.findRooms': 1,
      'records.roomsOf': 1,
      'devices.lastSeen': 1,
    });
  });

  it('of places have their devices, with one query for all places', async () => {
    const query = (first: number) =>
      `{ homes(first: ${first}) { nodes { homeName devices { name online state } rooms { name devices(first: 1) { name room { name } } } } } }`;
    const two = await storeCalls(query(2));
    expect(await storeCalls(query(20))).toEqual(two);
    expect(two['devices.inPlaces']).toBe(2);
    const { body } = await queryGraphql(service, query(20), { token: mine.tokens.owner });
    const [home] = body.data.homes.nodes;
    expect(home.devices).toEqual([{ name: 'Lamp 19', online: false, state: {} }]);
    expect(home.rooms).toEqual([{ name: 'Room 19', devices: [{ name: 'Lamp 19', room: { name: 'Room 19' } }] }]);
  });

  it('are not loaded unless they are selected', async () => {
    expect(await storeCalls('{ devices { nodes { id name deviceType online } } }')).toEqual({
      'devices.list': 1,
      'devices.count': 1,
    });
  });

  it('are correct, in the order of the list', async () => {
    const { body } = await queryGraphql(
      service,
      '{ devices(first: 20) { nodes { name home { homeName rooms { name } } room { name } } } }',
      {
        token: mine.tokens.owner,
      },
    );
    for (const { name, home, room } of body.data.devices.nodes) {
      const n = name.replace('Lamp ', '');
      expect([home.homeName, home.rooms, room]).toEqual([`Home ${n}`, [{ name: `Room ${n}` }], { name: `Room ${n}` }]);
    }
  });

  it('include all pages of a group with many devices', async () => {
    const { body } = await mine.call('GET', '/devices?limit=3');
    const ids = body.devices.map(({ id }: { id: string }) => id);
    await mine.call('POST', '/groups', { name: 'Three', device_ids: ids });
    const request = async (args: string) =>
      (
        await queryGraphql(service, `{ groups { nodes { deviceIds devices(${args}) { id } } } }`, {
          token: mine.tokens.owner,
        })
      ).body;
    const { deviceIds, devices } = (await request('first: 2')).data.groups.nodes[0];
    expect(devices).toEqual([{ id: deviceIds[0] }, { id: deviceIds[1] }]);
    const rest = await request(`first: 2, after: "${deviceIds[1]}"`);
    expect(rest.data.groups.nodes[0].devices).toEqual([{ id: deviceIds[2] }]);
    const lost = await request(`after: "${mine.homeId}"`);
    expect(lost.errors[0].extensions.code).toBe('VALIDATION_FAILED');
  });

  it('require their own permission: a key that may not read homes sees none through its devices', async () => {
    const { body: key } = await mine.call('POST', '/auth/api-keys', {
      name: 'Devices alone',
      scopes: ['read:devices'],
    });
    const { body } = await queryGraphql(service, '{ devices(first: 2) { nodes { name home { homeName } } } }', {
      token: key.key,
    });
    expect(body.data.devices.nodes.map((one: { home: unknown }) => one.home)).toEqual([null, null]);
    expect(body.errors.map((one: { extensions: { code: string } }) => one.extensions.code)).toEqual(
      Array(2).fill('INSUFFICIENT_SCOPE'),
    );
  });
});

describe('a connection', () => {
  it('has 50 entries without `first` and with null, which is what its cost counts', async () => {
    const other = await makeTestTenant(service);
    for (let n = 0; n < 51; n++) await other.call('POST', '/homes', { home_name: `Home ${n}` });
    for (const args of ['', '(first: null)']) {
      const { body } = await queryGraphql(service, `{ homes${args} { nodes { id } } }`, { token: other.tokens.owner });
      expect(body.data.homes.nodes).toHaveLength(50);
    }
  });

  it('continues after any of its cursors, to the end', async () => {
    const page = async (after: string | null, first: number) =>
      (
        await queryGraphql(
          service,
          'query ($after: String, $first: Int) { devices(first: $first, after: $after) { edges { cursor node { name } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }',
          { token: mine.tokens.owner, variables: { after, first } },
        )
      ).body.data.devices;
    const all = await page(null, 50);
    const names = all.edges.map((edge: { node: { name: string } }) => edge.node.name);
    expect(names).toHaveLength(20);
    expect(all.pageInfo).toEqual({
      ...{ hasNextPage: false, hasPreviousPage: false },
      ...{ startCursor: all.edges[0].cursor, endCursor: all.edges[19].cursor },
    });
    const some = await page(all.edges[6].cursor, 5);
    expect(some.edges.map((edge: { node: { name: string } }) => edge.node.name)).toEqual(names.slice(7, 12));
    expect(some.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: true, endCursor: all.edges[11].cursor });
    expect((await page(all.pageInfo.endCursor, 5)).edges).toEqual([]);
  });
});
