import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectPglite, connectPostgres } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { migrations } from '../../src/store/postgres/migrations.ts';
import { eventually } from '../support/clock.ts';
import { eachDeployment } from '../support/deployment.ts';
import { connect, waitForCommand } from '../support/device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

const folder = new URL('../fixtures/', import.meta.url);
const dump = readFileSync(new URL('released-12.sql', folder), 'utf8');
const released = JSON.parse(readFileSync(new URL('released-12.json', folder), 'utf8'));

/** Ended commands are unchanged; open ones may have reached their deadlines since. */
const statuses: Record<string, string[]> = {
  succeeded: ['succeeded'],
  failed: ['failed'],
  expired: ['expired'],
  cancelled: ['cancelled'],
  timed_out: ['timed_out'],
  awaiting_confirmation: ['awaiting_confirmation', 'expired'],
  acknowledged: ['acknowledged', 'timed_out'],
  dispatched: ['dispatched', 'expired'],
  remembered: ['dispatched', 'expired'],
};

eachDeployment('a database of the previous release', (deployment) => {
  let at: TestService;
  let owner: ApiClient;

  const open = (): Promise<Database> | Database => {
    const { databaseUrl, env } = deployment();
    return databaseUrl === null ? connectPglite(`${env.DATA_DIR}/db`) : connectPostgres(databaseUrl);
  };

  beforeAll(async () => {
    const database = await open();
    // PGlite has no lz4.
    const text = database.embedded ? dump.replaceAll(/^ALTER TABLE .* SET COMPRESSION lz4;$/gm, '') : dump;
    await database.transaction((query) => query(`drop schema public cascade; create schema public; ${text}`));
    await database.close();
    at = await startService({ ...deployment().env, ...released.env });
    owner = at.api(await at.token('owner'));
  });
  afterAll(() => at?.stop());

  /** The device that was registered before, connected to the current address of the service. */
  const signIn = (name: string, more: object = {}) => {
    const registered = { ...released.devices[name], mqtt_url: at.service.mqttUrl() };
    const turn_on = () => ({ state: { on: true, brightness: 70 } });
    return connect({ ...registered, ...more }, { commands: { turn_on } });
  };

  it.each(Object.keys(statuses))('has the command that was %s', async (name) => {
    const { status, body } = await owner.get(`/v1/commands/${released.commands[name]}`);
    expect(status).toBe(200);
    expect(statuses[name]).toContain(body.command.status);
  });

  it('has the former homes, rooms, groups, users, memories, firmware and keys', async () => {
    expect((await owner.get('/v1/auth/me')).body.user.tenant_id).toBe(released.tenantId);
    expect((await owner.get('/v1/homes')).body.homes).toMatchObject([{ id: released.homeId }]);
    expect((await owner.get(`/v1/homes/${released.homeId}/rooms`)).body.rooms).toMatchObject([{ id: released.roomId }]);
    expect(JSON.stringify((await owner.get('/v1/groups')).body)).toContain('"slug":"lamps"');
    expect((await owner.get('/v1/memories?q=warm')).body.memories).toMatchObject([{ id: released.memory }]);
    expect((await owner.get(`/v1/firmware/${released.firmware}`)).status).toBe(200);
    expect(JSON.stringify((await owner.get('/v1/tenant/members')).body)).toContain('bea@example.com');
    const byKey = await at.api('').get('/v1/devices', { 'x-api-key': released.apiKey });
    expect([byKey.status, byKey.body.devices.length]).toEqual([200, 6]);
  });

  it.each([
    ['lamp', 3],
    ['lamp2', 1],
  ])('has the state that the device “%s” reported', async (name, version) => {
    const { device } = (await owner.get(`/v1/devices/${released.devices[name].device_id}`)).body;
    expect(device).toMatchObject({ state: { brightness: 70, on: true }, state_version: version });
  });

  it('has the plans, and continues the one that was running', async () => {
    const plan = async (name: string) => (await owner.get(`/v1/plans/${released.plans[name]}`)).body.plan;
    expect(await plan('succeeded')).toMatchObject({ status: 'succeeded' });
    expect((await plan('running')).steps).toMatchObject([{ id: 'a' }]);
    expect((await owner.post(`/v1/plans/${released.plans.running}/cancel`, {})).status).toBeLessThan(500);
    await eventually(async () => (await plan('running')).finished_at);
    expect((await plan('half_done')).steps).toMatchObject([{ id: 'a' }, { id: 'b' }]);
  });

  it.each(['lamp', 'lamp2'])('lets the device “%s” sign in and run commands as before', async (name) => {
    const device = await signIn(name);
    const { device_id } = released.devices[name];
    const before = (await owner.get(`/v1/devices/${device_id}`)).body;
    const { body } = await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on' });
    expect(await waitForCommand(owner, body.command_id, ({ status }) => status === 'succeeded')).toBeTruthy();
    const after = (await owner.get(`/v1/devices/${device_id}`)).body;
    expect(JSON.stringify(after)).not.toBe(JSON.stringify(before));
    await device.close(0);
  });

  it('lets a device sign in with its latest key', async () => {
    const { newKey } = released.devices.rotated;
    const device = await signIn('rotated', { device_secret: newKey.new_secret, key_version: newKey.key_version });
    await device.close(0);
  });

  it('has delivered the undelivered messages, and applied each migration once', async () => {
    await eventually(async () => (await owner.get('/health')).status === 200);
    const device = await owner.get(`/v1/devices/${released.devices.revoked.device_id}`);
    expect(JSON.stringify(device.body)).toContain('revoked');
    await at.stop();
    const database = await open();
    expect(await database.read({ text: 'select * from outbox' })).toEqual([]);
    expect(
      await database.read({ text: 'select id from migrations union all select id from expansions order by id' }),
    ).toEqual(migrations.map(({ id }) => ({ id })));
    await database.close();
  });
});
