import pg from 'pg';
import { afterEach, describe, expect, inject, it, vi } from 'vitest';
import { createApiKey } from '../support/access-fixture.ts';
import { makePostgresDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';
import { ownedDatabase } from '../support/store.ts';

const serverUrl = inject('postgresUrl');

/** As a mistake in a statement would: the condition on the tenant is true for every row. */
const withoutTenant = (text: string): string => text.replaceAll(/(\b\w\.)?tenant_id = \$1/g, '$$1::uuid is not null');

/** The statements of the lists below. */
const lists =
  /^(devices_list|homes|groups|memories|keys|members|firmware_list|plans_list|audit_list|inspect_device|overview_devices)$/;

function forgetTenants(): void {
  const { parse } = pg.Connection.prototype;
  vi.spyOn(pg.Connection.prototype, 'parse').mockImplementation(function (this: pg.Connection, query, ...more) {
    const { name, text } = query as { name?: string; text: string };
    const forgotten = name !== undefined && lists.test(name) ? { ...query, text: withoutTenant(text) } : query;
    return parse.call(this, forgotten, ...more);
  });
}

/** One of each kind of record. Returns for each list of the API an id that the list of this tenant has. */
async function fill(at: TestService, sub: string): Promise<{ token: string; ids: Record<string, string> }> {
  const owner = await at.owner(sub);
  const made = async (path: string, body: object) => {
    const answer = await owner.post(path, body);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return answer.body;
  };
  const lamp = await register(owner, { name: `Lamp of ${sub}` });
  await made('/v1/groups', { name: `Group of ${sub}` });
  const { memory } = await made('/v1/memories', { kind: 'observation', subject: sub, content: 'Quiet.' });
  const { prefix } = await createApiKey(owner, { scopes: ['read:devices'] });
  const release = await made('/v1/firmware/release', { device_type: 'smart_light', version: '1.0.0' });
  const { plan } = await made('/v1/plans', {
    name: 'Evening',
    steps: [{ id: 'on', device_id: lamp.device_id, action: 'turn_on' }],
  });
  return {
    token: owner.token,
    ids: {
      devices: lamp.device_id,
      homes: owner.homeId,
      groups: `Group of ${sub}`,
      memories: memory.id,
      'auth/api-keys': prefix,
      'tenant/members': owner.userId,
      firmware: release.id,
      plans: plan.id,
      audit: `device:${lamp.device_id}`,
      'actors?kind=device': lamp.device_id,
    },
  };
}

describe.runIf(serverUrl)('row-level security under the assembled service', () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    vi.restoreAllMocks();
    for (const close of closing.splice(0).reverse()) await close();
  });

  const makeOwned = async () => {
    const deployment = await makePostgresDeployment(true);
    if (deployment === null) throw new Error('PostgreSQL is not installed');
    // As a role that is no superuser, like that of a deployment.
    const owned = await ownedDatabase(serverUrl ?? '');
    closing.push(deployment.remove, owned.drop);
    return { owned, env: { ...deployment.env, DATABASE_URL: owned.url } };
  };

  it('answers 503 while the service may not use the role of tenants', async () => {
    const { owned, env } = await makeOwned();
    const at = await startService({ ...env, ROW_SECURITY: 'required' });
    closing.push(at.stop);
    const { token } = await at.owner('owner');
    const role = `${new URL(owned.url).pathname.slice(1)}_tenant`;
    const status = async () => (await at.api(token).get('/v1/devices')).status;
    expect(await status()).toBe(200);
    await owned.asAdmin(`revoke ${role} from ${owned.owner}`);
    expect(await status()).toBe(503);
    await owned.asAdmin(`grant ${role} to ${owned.owner}`);
    expect(await status()).toBe(200);
  });

  it('shows a tenant its own rows alone where each list has lost its condition on the tenant', async () => {
    const { env } = await makeOwned();
    forgetTenants();
    const at = await startService({ ...env, ROW_SECURITY: 'required' });
    closing.push(at.stop);
    const [a, b] = [await fill(at, 'owner-a'), await fill(at, 'owner-b')];
    const shown = async (service: TestService, path: string) => {
      const answer = await service.api(a.token).get(`/v1/${path}`);
      expect(answer.status, path).toBe(200);
      return JSON.stringify(answer.body);
    };
    for (const [path, id] of Object.entries(a.ids)) {
      expect(await shown(at, path), path).toContain(id);
      expect(await shown(at, path), path).not.toContain(b.ids[path]);
    }
    expect(JSON.parse(await shown(at, 'overview'))).toMatchObject({ devices: { total: 1 } });
    await at.stop();

    // The same statements without the policies.
    const off = await startService({ ...env, ROW_SECURITY: 'off' });
    closing.splice(closing.indexOf(at.stop), 1, off.stop);
    for (const path of Object.keys(a.ids)) expect(await shown(off, path), path).toContain(b.ids[path]);
    expect(JSON.parse(await shown(off, 'overview'))).toMatchObject({ devices: { total: 2 } });
  });
});
