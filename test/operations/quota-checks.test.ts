import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultQuotas, type QuotaKind } from '../../src/domain/quotas.ts';
import type { MachineEvent } from '../../src/machines/definition.ts';
import type { TenantEvent } from '../../src/machines/tenant-types.ts';
import type { HttpService } from '../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  service.services.settings.quotas = defaultQuotas;
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

function limit(kind: QuotaKind, to: number, factors: Record<string, number> = {}): void {
  service.services.settings.quotas = { base: { ...defaultQuotas.base, [kind]: to }, factors };
}
const refused = (detail: string) => ({ status: 403, body: { code: 'QUOTA_REACHED', detail } });
const statuses = (answers: readonly { status: number }[]) => answers.map(({ status }) => status).sort();
const five = <T>(call: (n: number) => Promise<T>): Promise<T[]> => Promise.all([0, 1, 2, 3, 4].map(call));
const makeHome = () => mine.call('POST', '/homes', { home_name: 'Lakeside' });
const makeGroup = (device_ids: readonly string[] = []) => mine.call('POST', '/groups', { name: 'Lights', device_ids });
const registerDevice = () =>
  mine.call('POST', '/device/register', { device_type: 'smart_light', home_id: mine.homeId });

async function upload(
  version: string,
  bytes: number,
): Promise<{ id: string; put: () => ReturnType<typeof mine.call> }> {
  const { body } = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version });
  const octets = { headers: { 'content-type': 'application/octet-stream' } };
  const put = () => mine.call('PUT', `/firmware/${body.id}/artifact`, Buffer.alloc(bytes), octets);
  return { id: body.id, put };
}

describe('a quota', () => {
  it('of homes holds for requests at the same time, and a deleted home makes room for another', async () => {
    limit('homes', 3);
    const made = await five(makeHome);
    expect(statuses(made)).toEqual([201, 201, 403, 403, 403]);
    expect(await makeHome()).toMatchObject(refused('A tenant of the tier free has at most 3 homes.'));
    const id = made.find(({ status }) => status === 201)?.body.id;
    expect((await mine.call('DELETE', `/homes/${id}`)).status).toBe(204);
    expect((await makeHome()).status).toBe(201);
  });

  it('of rooms is for each home', async () => {
    limit('home_rooms', 2);
    const makeRoom = (homeId: string) => mine.call('POST', `/homes/${homeId}/rooms`, { name: 'Kitchen' });
    expect(statuses(await five(() => makeRoom(mine.homeId)))).toEqual([201, 403, 403, 403, 403]);
    expect(await makeRoom(mine.homeId)).toMatchObject(
      refused('A tenant of the tier free has at most 2 rooms in one home.'),
    );
    expect((await makeRoom((await makeHome()).body.id)).status).toBe(201);
  });

  it('of devices holds for registrations at the same time, and a decommissioned device makes room', async () => {
    limit('devices', 2);
    const answers = await five(registerDevice);
    expect(statuses(answers)).toEqual([201, 201, 403, 403, 403]);
    expect(await registerDevice()).toMatchObject(refused('A tenant of the tier free has at most 2 devices.'));
    const id = answers.find(({ status }) => status === 201)?.body.device_id;
    expect((await mine.call('POST', `/device/${id}/revoke`)).status).toBe(200);
    expect((await mine.call('DELETE', `/devices/${id}`)).status).toBe(204);
    expect((await registerDevice()).status).toBe(201);
  });

  it('of groups, and of devices in one of them', async () => {
    limit('groups', 1);
    expect(statuses(await five(() => makeGroup()))).toEqual([201, 403, 403, 403, 403]);
    limit('group_devices', 2);
    const ids = await Promise.all([0, 1, 2].map(async () => (await mine.register()).device_id));
    const message = refused('A tenant of the tier free has at most 2 devices in one group.');
    expect(await makeGroup(ids)).toMatchObject(message);
    const { slug } = (await makeGroup(ids.slice(0, 1))).body;
    const join = (device_ids: readonly string[]) => mine.call('POST', `/groups/${slug}/join`, { device_ids });
    expect(await join(ids.slice(1))).toMatchObject(message);
    expect((await join(ids.slice(0, 2))).status).toBe(200);
    limit('group_devices', 1);
    // Nothing is added, so that a lower quota later breaks no repetition.
    expect((await join(ids.slice(0, 2))).status).toBe(200);
  });

  it('of firmware releases counts drafts and withdrawn ones, also at once', async () => {
    limit('firmware_releases', 2);
    const draft = (n: number) => mine.call('POST', '/firmware/release', { device_type: 'lamp', version: `${n}.0.0` });
    const answers = await Promise.all([1, 2, 3, 4].map(draft));
    expect(statuses(answers).sort()).toEqual([201, 201, 403, 403]);
    const made = answers.find(({ status }) => status === 201);
    expect((await mine.call('POST', `/firmware/${made?.body.id}/withdraw`)).status).toBe(200);
    expect(await draft(5)).toMatchObject(
      refused('A tenant of the tier free has at most 2 firmware releases, with drafts and withdrawn ones.'),
    );
  });

  it('of artifacts counts their octets, not those that an upload replaces', async () => {
    limit('artifact_mib', 1);
    const half = 512 * 1024;
    const [one, two, three] = await Promise.all(['1.0.0', '2.0.0', '3.0.0'].map((version) => upload(version, half)));
    for (const { put } of [one, one, two] as { put(): Promise<{ status: number }> }[]) {
      expect((await put()).status).toBe(200);
    }
    expect(await three?.put()).toMatchObject(
      refused('A tenant of the tier free has at most 1 MiB of firmware artifacts.'),
    );
    expect((await mine.call('POST', `/firmware/${one?.id}/withdraw`)).status).toBe(200);
    expect((await three?.put())?.status).toBe(200);
  });

  it('is multiplied by the factor of the tier, and 0 is unlimited', async () => {
    limit('homes', 1, { pro: 2, lab: 0 });
    expect((await makeHome()).status).toBe(403);
    const setTier = (tier: string) => {
      const event = { type: 'tier.set', at: service.clock.now(), tier } satisfies TenantEvent & MachineEvent;
      return service.services.actors.send({ kind: 'tenant', id: mine.tenantId }, event);
    };
    await setTier('pro');
    expect(statuses(await five(makeHome))).toEqual([201, 403, 403, 403, 403]);
    await setTier('lab');
    expect(statuses(await five(makeHome))).toEqual([201, 201, 201, 201, 201]);
    limit('homes', 0);
    await setTier('pro');
    expect((await makeHome()).status).toBe(201);
  });

  it('is the same for each tenant, whatever others have', async () => {
    limit('homes', 2);
    const other = await makeTestTenant(service);
    expect((await other.call('POST', '/homes', { home_name: 'Other' })).status).toBe(201);
    expect((await makeHome()).status).toBe(201);
  });
});
