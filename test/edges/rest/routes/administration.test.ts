import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../../../src/domain/shards.ts';
import { PLATFORM_SCOPE } from '../../../../src/services/tokens.ts';
import { type CallOptions, type HttpService, startHttpService } from '../../../support/http-service.ts';
import { firstNode, type MemoryNodes, secondNode } from '../../../support/memory-nodes.ts';
import { makeTestTenant } from '../../../support/test-tenant.ts';

const MISSING = '0195d9a2-7f00-7000-8000-00000000ffff';

let service: HttpService;
let operator: string;
const call = (method: string, path: string, sent: CallOptions = {}) => service.call(method, `/v1${path}`, sent);
const admin = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  call(method, `/admin${path}`, { token: operator, headers, ...(body !== undefined && { body }) });

beforeAll(async () => {
  service = await startHttpService();
  operator = await service.token('operator', { scope: PLATFORM_SCOPE });
});
afterAll(() => service.close());

describe('platform operators', () => {
  const requests = [
    ['GET', '/admin/tenants'],
    ['POST', `/admin/tenants/${MISSING}/suspend`],
    ['POST', `/admin/tenants/${MISSING}/resume`],
    ['POST', `/admin/tenants/${MISSING}/tier`],
    ['GET', '/admin/nodes'],
    ['POST', `/admin/nodes/${MISSING}/drain`],
    ['POST', `/admin/nodes/${MISSING}/resume`],
    ['GET', '/admin/flags'],
    ['POST', '/admin/flags/maintenance_mode'],
  ] as const;

  it.each(requests)(
    '%s %s is reserved for them: refused to owners and to users without a tenant',
    async (method, path) => {
      const body = method === 'POST' ? { body: {} } : {};
      const owner = await service.owner();
      for (const token of [owner.token, await service.token('nobody')]) {
        expect(await call(method, path, { token, ...body })).toMatchObject({
          status: 403,
          body: { code: 'FORBIDDEN' },
        });
      }
      expect(await call(method, path, body)).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
    },
  );

  it('need no tenant, and work during maintenance and while their own tenant is suspended', async () => {
    const { tenantId } = await service.owner();
    const { body: me } = await call('GET', '/auth/me', { token: operator });
    expect(me.has_tenant).toBe(false);
    expect((await admin('POST', '/flags/maintenance_mode', { state: true })).status).toBe(200);
    expect((await admin('POST', `/tenants/${tenantId}/suspend`)).status).toBe(200);
    await service.updateUser(me.user.id, { tenantId, role: 'viewer' });
    expect((await call('GET', '/homes', { token: operator })).body.code).toBe('TENANT_SUSPENDED');
    expect((await admin('POST', `/tenants/${tenantId}/resume`)).status).toBe(200);
    expect((await admin('POST', '/flags/maintenance_mode', { state: false })).status).toBe(200);
    await service.updateUser(me.user.id, { tenantId: null, role: 'none' });
  });
});

it('no API key is a platform operator, not even of an operator', async () => {
  const { tenantId } = await service.owner();
  const both = await service.token('both', { scope: PLATFORM_SCOPE });
  const { body: me } = await call('GET', '/auth/me', { token: both });
  await service.updateUser(me.user.id, { tenantId, role: 'owner' });
  const made = await call('POST', '/auth/api-keys', {
    token: await service.token('both'),
    body: { name: 'All', scopes: ['all'] },
  });
  expect(made.status).toBe(201);
  const refused = await call('GET', '/admin/tenants', { headers: { 'X-API-Key': made.body.key } });
  expect(refused).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
});

describe('the tenants', () => {
  it('are a plain array, newest first, with the next page in the Link header', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      service.clock.advance(1_234);
      ids.unshift((await service.owner(`Tenant ${n}`)).tenantId);
    }
    const seen: { id: string; name: string; slug: string; created_at: object }[] = [];
    let path = '/tenants?limit=2';
    for (let page = 0; page < 3; page++) {
      const { body, headers } = await admin('GET', path);
      expect(Array.isArray(body)).toBe(true);
      seen.push(...body);
      path = (/^<\/v1\/admin(\S+)>; rel="next"$/.exec(headers.get('link') ?? '') ?? [])[1] ?? '';
      expect(path).toMatch(/^\/tenants\?limit=2&cursor=/);
    }
    expect(seen.slice(0, 5).map(({ id }) => id)).toEqual(ids);
    const now = service.clock.now();
    expect(seen[0]).toEqual({
      id: ids[0],
      name: 'Tenant 4',
      slug: expect.stringMatching(/^tenant-4/),
      status: 'active',
      tier: 'free',
      created_at: { _seconds: Math.floor(now / 1_000), _nanoseconds: (now % 1_000) * 1_000_000 },
    });
    expect((await admin('GET', '/tenants?limit=200')).headers.get('link')).toBeNull();
  });

  it('accept only a cursor of the same list', async () => {
    expect((await admin('GET', '/tenants?cursor=abc')).status).toBe(400);
    expect((await admin('GET', '/tenants?limit=0')).status).toBe(400);
    expect((await admin('GET', '/tenants?limit=201')).status).toBe(400);
  });

  it('are suspended and resumed, any number of times, with the reason in the journal', async () => {
    const { tenantId } = await service.owner();
    const suspended = { status: 200, body: { status: 'suspended', tenant_id: tenantId } };
    const active = { status: 200, body: { status: 'active', tenant_id: tenantId } };
    expect(await admin('POST', `/tenants/${tenantId}/resume`)).toMatchObject(active);
    expect(await admin('POST', `/tenants/${tenantId}/suspend`, { reason: 'Unpaid' })).toMatchObject(suspended);
    expect(await admin('POST', `/tenants/${tenantId}/suspend`)).toMatchObject(suspended);
    expect(await admin('POST', `/tenants/${tenantId}/resume`, {})).toMatchObject(active);
    const journal = await service.store.actors.journal({ kind: 'tenant', id: tenantId }, 10);
    const events = journal.map(({ event, data }) => [event, data]);
    expect(events).toContainEqual(['suspend', { reason: 'Unpaid' }]);
    expect(events).toContainEqual(['resume', {}]);
    expect(events).toHaveLength(3);
  });

  it('have a tier of RATE_LIMITS', async () => {
    const { tenantId } = await service.owner();
    const tier = `/tenants/${tenantId}/tier`;
    expect((await admin('POST', tier, { tier: 'pro' })).body).toEqual({ tenant_id: tenantId, tier: 'pro' });
    expect((await admin('POST', tier, { tier: 'pro' })).status).toBe(200);
    const { snapshot } = (await service.runtime.actors.read({ kind: 'tenant', id: tenantId })) ?? {};
    expect(snapshot?.context.fixed).toMatchObject({ tier: 'pro' });
    expect(await admin('POST', tier, { tier: 'gold' })).toMatchObject({
      status: 400,
      body: { code: 'VALIDATION_FAILED', errors: [{ path: 'tier' }] },
    });
    for (const body of [{}, { tier: 5 }, { tier: '__proto__' }, { tier: 'pro', more: 1 }]) {
      expect((await admin('POST', tier, body)).status).toBe(400);
    }
  });

  it('that do not exist are not found, nor are invalid ids', async () => {
    for (const id of [MISSING, 'x', '%00']) {
      for (const [verb, body] of [['suspend'], ['resume'], ['tier', { tier: 'pro' }]] as const) {
        const answer = await admin('POST', `/tenants/${id}/${verb}`, body);
        expect(answer).toMatchObject({ status: 404, body: { code: 'NOT_FOUND', detail: 'Tenant not found.' } });
      }
    }
  });

  it('are suspended once for one Idempotency-Key', async () => {
    const { tenantId } = await service.owner();
    const headers = { 'Idempotency-Key': 'once' };
    await admin('POST', `/tenants/${tenantId}/suspend`, { reason: 'Unpaid' }, headers);
    await admin('POST', `/tenants/${tenantId}/resume`);
    const again = await admin('POST', `/tenants/${tenantId}/suspend`, { reason: 'Unpaid' }, headers);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    const tenant = await service.runtime.actors.read({ kind: 'tenant', id: tenantId });
    expect(tenant?.snapshot.value).toBe('active');
  });
});

describe('the flags', () => {
  const none = {
    maintenance_mode: false,
    registration_lock: false,
    commands_disabled: false,
    cognition_disabled: false,
  };

  it('are all listed, set and cleared', async () => {
    expect((await admin('GET', '/flags')).body).toEqual({ flags: none });
    const set = await admin('POST', '/flags/commands_disabled', { state: true });
    expect(set).toMatchObject({ status: 200, body: { flag: 'commands_disabled', state: true } });
    expect((await admin('GET', '/flags')).body.flags).toEqual({ ...none, commands_disabled: true });
    await admin('POST', '/flags/commands_disabled', { state: true });
    await admin('POST', '/flags/commands_disabled', { state: false });
    expect((await admin('GET', '/flags')).body).toEqual({ flags: none });
    expect(await service.store.administration.flags()).toMatchObject({ commands_disabled: false });
  });

  it('that do not exist are not found, and a value must be a boolean', async () => {
    for (const name of ['beta', 'MAINTENANCE_MODE', '__proto__', 'constructor']) {
      expect(await admin('POST', `/flags/${name}`, { state: true })).toMatchObject({
        status: 404,
        body: { code: 'NOT_FOUND' },
      });
    }
    for (const body of [{}, { state: 'true' }, { state: 1 }, { state: null }, { state: true, flag: 'x' }]) {
      expect((await admin('POST', '/flags/registration_lock', body)).status).toBe(400);
    }
  });

  it('take effect with the response: registration and changes are refused, reads continue', async () => {
    const { token } = await service.owner();
    await admin('POST', '/flags/registration_lock', { state: true });
    const register = await call('POST', '/tenant/register', {
      token: await service.token('late'),
      body: { tenant_name: 'Late' },
    });
    expect(register).toMatchObject({ status: 503, body: { code: 'REGISTRATION_LOCKED' } });
    await admin('POST', '/flags/registration_lock', { state: false });
    await admin('POST', '/flags/maintenance_mode', { state: true });
    const home = () => call('POST', '/homes', { token, body: { home_name: 'Hut' } });
    const refused = await home();
    expect(refused).toMatchObject({ status: 503, body: { code: 'MAINTENANCE' } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await call('GET', '/homes', { token })).status).toBe(200);
    expect((await call('GET', '/status')).status).toBe(200);
    await admin('POST', '/flags/maintenance_mode', { state: false });
    expect((await home()).status).toBe(201);
  });
});

describe('the nodes', () => {
  const nodes = () => service.services.nodes as MemoryNodes;
  beforeEach(() => nodes().reset());

  it('are listed with their shards, the tenants and devices in them, and their load', async () => {
    const counts = async () => {
      const { status, body } = await admin('GET', '/nodes');
      expect(status).toBe(200);
      return body;
    };
    const before = await counts();
    const tenant = await makeTestTenant(service);
    await tenant.register({ device_type: 'smart_light' });
    const { nodes, shards_without_owner, shards_unreadable, shard_owners } = await counts();
    const at = shardOf(tenant.tenantId) % 2;
    expect(nodes[at].tenants).toBe(before.nodes[at].tenants + 1);
    expect(nodes[at].devices).toBe(before.nodes[at].devices + 1);
    expect(nodes[1 - at]).toEqual(before.nodes[1 - at]);
    expect(nodes[0]).toEqual({
      ...{ id: firstNode, number: 1, address: 'node-1:8080', link: '10.0.0.1:7400', build: '1.0.0', state: 'active' },
      ...{ schema_level: 23, data_level: 1 },
      ...{ started_at: '2026-03-01T00:00:00.000Z', shards: 128, lease_age_ms: 812 },
      ...{ tenants: expect.any(Number), devices: expect.any(Number) },
      load: {
        ...{ live_actors: 60, device_sessions: 40, cpu_share: 0.25 },
        ...{ heap_bytes: 3_000_000_000, rss_bytes: 4_000_000_000, event_loop_delay_ms: 2 },
      },
      ...{ shards_opened: 130, shards_handed_over: 2 },
    });
    expect([shards_without_owner, shards_unreadable]).toEqual([0, 0]);
    expect(shard_owners).toBeUndefined();
  });

  it('are listed with the owner of each shard on request; a fenced owner is none', async () => {
    nodes().owners[3] = MISSING;
    nodes().owners[4] = null;
    // The first one can be read by no live node.
    nodes().levels[3] = 2;
    const { body } = await admin('GET', '/nodes?shards=true');
    expect([body.shards_without_owner, body.shards_unreadable]).toEqual([2, 1]);
    expect(body.shard_owners).toHaveLength(256);
    expect(body.shard_owners.slice(0, 6)).toEqual([firstNode, secondNode, firstNode, null, null, secondNode]);
    expect(body.nodes.map(({ shards }: { shards: number }) => shards)).toEqual([127, 127]);
  });

  it('without published figures have no load', async () => {
    Object.assign(nodes().nodes[1] as object, { figures: null, leaseAgeMs: null });
    const { body } = await admin('GET', '/nodes');
    expect(body.nodes[1]).toMatchObject({
      ...{ load: null, lease_age_ms: null, shards_opened: null, shards_handed_over: null },
    });
  });

  it('are drained and resumed, which the audit records', async () => {
    expect(await admin('POST', `/nodes/${secondNode}/drain`)).toMatchObject({
      status: 200,
      body: { node_id: secondNode, state: 'draining' },
    });
    expect((await admin('GET', '/nodes')).body.nodes[1].state).toBe('draining');
    expect(await admin('POST', `/nodes/${firstNode}/drain`)).toMatchObject({
      status: 409,
      body: { code: 'CONFLICT', detail: expect.stringContaining('No other node is active') },
    });
    expect(await admin('POST', `/nodes/${secondNode}/resume`)).toMatchObject({
      status: 200,
      body: { node_id: secondNode, state: 'active' },
    });
    const { body: audit } = await call('GET', '/audit?platform=true', { token: operator });
    const changes = audit.entries.filter(({ subject }: { subject: string }) => subject === `node:${secondNode}`);
    expect(changes).toMatchObject([{ action: 'resumeNode' }, { action: 'drainNode' }]);
  });

  it('are not drained or resumed while they join or stop', async () => {
    Object.assign(nodes().nodes[1] as object, { state: 'stopping' });
    for (const change of ['drain', 'resume']) {
      expect(await admin('POST', `/nodes/${secondNode}/${change}`)).toMatchObject({
        status: 409,
        body: { code: 'ILLEGAL_TRANSITION' },
      });
    }
  });
});
