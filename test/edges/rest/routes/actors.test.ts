import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../src/domain/values.ts';
import { actorKinds } from '../../../../src/machines/outputs.ts';
import type { CallOptions, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const get = (path: string, sent?: CallOptions) => mine.call('GET', path, undefined, sent);
const list = async (query = '', sent?: CallOptions) => (await get(`/actors${query}`, sent)).body;
const device = async (type = 'smart_light') => (await mine.register({ device_type: type })).device_id;
const quarantine = (id: string) => service.store.actors.quarantine({ kind: 'device', id }, 'it failed');

describe('the list of actors', () => {
  it('contains all kinds, newest first, in the shape of the contract', async () => {
    const id = await device();
    service.clock.advance(10);
    const { body } = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    const { actors, next_cursor } = await list();
    expect(next_cursor).toBeNull();
    expect(actors.map(({ kind, id }: { kind: string; id: string }) => [kind, id])).toEqual([
      ['command', body.command_id],
      ['device', id],
      ['tenant', mine.tenantId],
    ]);
    expect(actors[1]).toEqual({
      ...{ kind: 'device', id, name: 'smart_light', version: 1 },
      state: 'administration.active.one_key,link.offline',
      since: expect.stringMatching(/^\d{4}-.*Z$/),
      ...{ live: true, mailbox: 0, quarantined: false },
    });
    expect(actors[0].state).toMatch(/^lifecycle\.queued,verification\.watching\.open$/);
  });

  it('has every actor once in its pages, during concurrent changes', async () => {
    const ids = new Set<string>([mine.tenantId]);
    for (let n = 0; n < 4; n++) {
      const id = await device();
      ids.add(id);
      ids.add((await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' })).body.command_id);
      if (n % 2) service.clock.advance(1);
    }
    const seen: string[] = [];
    let cursor = '';
    do {
      const page = await list(`?limit=2${cursor}`);
      seen.push(...page.actors.map(({ id }: { id: string }) => id));
      cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`;
      await device();
    } while (cursor !== '');
    expect(seen).toHaveLength(ids.size);
    expect(new Set(seen)).toEqual(ids);
  });

  it('has cursors that are valid for their filters and tenant only', async () => {
    await device();
    const { next_cursor } = await list('?limit=1');
    for (const query of [`?kind=device&cursor=${next_cursor}`, `?state=active&cursor=${next_cursor}`, '?cursor=x']) {
      expect((await get(`/actors${query}`)).body.code).toBe('VALIDATION_FAILED');
    }
    const other = await makeTestTenant(service);
    expect((await other.call('GET', `/actors?cursor=${next_cursor}`)).status).toBe(400);
  });

  it('is filtered by kind, and by states with their full or short name', async () => {
    const online = await device();
    await mine.report(online, { on: true });
    const rotated = await device();
    await mine.call('POST', `/device/${rotated}/rotate-secret`, {});
    const revoked = await device();
    await mine.call('POST', `/device/${revoked}/revoke`, {});
    const waiting = (await mine.call('POST', `/device/${online}/command`, { action: 'reboot' })).body.command_id;
    const found = async (query: string) =>
      new Set((await list(`?${query}`)).actors.map(({ id }: { id: string }) => id));
    expect(await found('kind=device')).toEqual(new Set([online, rotated, revoked]));
    expect(await found('state=online')).toEqual(new Set([online]));
    expect(await found('state=link.offline')).toEqual(new Set([rotated, revoked]));
    expect(await found('kind=device&state=active')).toEqual(new Set([online, rotated]));
    expect(await found('state=active')).toEqual(new Set([online, rotated, mine.tenantId]));
    expect(await found('state=active.two_keys')).toEqual(new Set([rotated]));
    expect(await found('state=administration.active.one_key,link.online')).toEqual(new Set([online]));
    expect(await found('state=revoked')).toEqual(new Set([revoked]));
    expect(await found('state=awaiting_confirmation')).toEqual(new Set([waiting]));
    expect(await found('state=online,revoked')).toEqual(new Set());
  });

  it.each(['state=', 'state=onlin', 'state=link.', 'state=active,,online', 'kind=tenant&state=online', 'kind=lamp'])(
    'rejects %s, a state that no actor has',
    async (query) => {
      expect((await get(`/actors?${query}`)).body).toMatchObject({ code: 'VALIDATION_FAILED', status: 400 });
    },
  );

  it('omits deleted actors and those of another tenant', async () => {
    const id = await device();
    await mine.call('POST', `/device/${id}/revoke`, {});
    await mine.call('DELETE', `/devices/${id}`);
    expect((await list('?kind=device')).actors).toEqual([]);
    const other = await makeTestTenant(service);
    await other.register();
    expect((await list()).actors.map(({ id }: { id: string }) => id)).toEqual([mine.tenantId]);
  });

  it('shows which actors are live and which are quarantined', async () => {
    const [held, free] = [await device(), await device()];
    await quarantine(held);
    const actors = (await list('?quarantined=true')).actors;
    expect(actors).toMatchObject([{ id: held, quarantined: true }]);
    expect((await list('?kind=device&quarantined=false')).actors).toMatchObject([{ id: free, quarantined: false }]);
    service.clock.advance(601_000);
    service.runtime.actors.passivate();
    expect((await list('?kind=device')).actors).toMatchObject([{ live: false }, { live: false }]);
  });
});

describe('an actor', () => {
  it('shows its context, its possible events and its timers', async () => {
    const id = await device();
    await mine.report(id, { on: true });
    const rotatedAt = service.clock.now();
    await mine.call('POST', `/device/${id}/rotate-secret`, {});
    const { actor } = (await get(`/actors/device/${id}`)).body;
    expect(actor).toMatchObject({
      ...{ kind: 'device', id, state: 'administration.active.two_keys,link.online', version: 3, live: true },
      ...{ machine_version: 1, quarantined: false, quarantine_reason: null },
      context: { device_type: 'smart_light', state: { on: true }, key_version: 2, last_sequence: 1 },
      timers: [{ event: 'after grace over', due_at: new Date(rotatedAt + 86_400_000).toISOString() }],
    });
    expect(actor.next_events).toEqual(expect.arrayContaining(['after grace over', 'rotate', 'revoke']));
    expect(actor.next_events).not.toContain('register');
  });

  it('shows no secret in any context, for each kind', async () => {
    const { device_id: id, device_secret: secret } = await mine.register({ device_type: 'lock' });
    await mine.connect(id);
    const rotated = (await mine.call('POST', `/device/${id}/rotate-secret`, {})).body.new_secret;
    const requested = (await mine.call('POST', `/device/${id}/command`, { action: 'unlock' })).body;
    const [stored] = await service.store.actors.load('command', [requested.command_id]);
    const tokenHash = (stored?.context.confirmation as JsonObject | undefined)?.tokenHash;
    const sessionId = service.runtime.sessions.get(id)?.sessionId;
    await mine.call('POST', `/device/${id}/command`, { action: 'lock' });
    const steps = [{ id: 'a', device_id: id, action: 'lock', compensation: { action: 'unlock' } }];
    await mine.call('POST', '/plans', { steps });
    const keys = await service.store.devices.keyHistory(id);
    const secrets = [
      secret,
      rotated,
      requested.dry_run_token,
      tokenHash,
      sessionId,
      ...keys.map((k) => k.sealedSecret),
    ];
    const { actors } = await list();
    expect(new Set(actors.map(({ kind }: { kind: string }) => kind))).toEqual(new Set(actorKinds));
    for (const { kind, id } of actors) {
      const text = JSON.stringify([await get(`/actors/${kind}/${id}`), await get(`/actors/${kind}/${id}/journal`)]);
      for (const one of secrets) expect(text).not.toContain(one);
      expect(text).not.toMatch(/hash|secret|sealed|nonce|password|"token/i);
    }
  });

  it('is 404 with one body if it is missing, of another tenant or kind, or the id is invalid', async () => {
    const other = await makeTestTenant(service);
    const foreign = (await other.register()).device_id;
    const own = await device();
    const sent = new Set<string>();
    const paths = [`device/${foreign}`, `device/${v7()}`, `command/${own}`, 'device/x', `lamp/${own}`];
    for (const path of [...paths, `tenant/${other.tenantId}`]) {
      for (const [method, end] of [
        ['GET', ''],
        ['GET', '/journal'],
        ['POST', '/release'],
      ] as const) {
        const { status, body } = await mine.call(method, `/actors/${path}${end}`, method === 'POST' ? {} : undefined);
        expect([path, end, status]).toEqual([path, end, 404]);
        sent.add(body.detail);
      }
    }
    expect([...sent]).toEqual(['Actor not found.']);
  });

  it('with a stored context that matches no machine is shown without it, and stays quarantined', async () => {
    const id = await device();
    const [stored] = await service.store.actors.load('device', [id]);
    service.clock.advance(601_000);
    service.runtime.actors.passivate();
    const { actors } = service.store;
    if (stored === undefined) throw new Error('not there');
    const broken = { ...stored.context, keyVersion: 'two' };
    await actors.commit([
      {
        ...{ ref: stored.ref, tenantId: stored.tenantId, readVersion: 1, version: 2, machineVersion: 1 },
        ...{
          value: stored.value,
          fixed: broken,
          live: {},
          fixedUnchanged: false,
          since: stored.since,
        },
        ...{ journal: [], outbox: [], rows: [], samples: null },
        columns: { device_type: 'x', revoked: false, deleted: false, online: false, created_at: 1 },
        ...{ timers: { set: [], clear: [] }, idempotency: null, delivered: [] },
      },
    ]);
    expect((await mine.call('PATCH', `/devices/${id}`, { name: 'x' })).status).toBeGreaterThanOrEqual(400);
    const { actor } = (await get(`/actors/device/${id}`)).body;
    expect(actor).toMatchObject({ context: null, quarantined: true });
    expect(actor.quarantine_reason).toMatch(/^the stored state does not match the machine: \w+ (is|must be|unknown)/);
    expect((await mine.call('POST', `/actors/device/${id}/release`, {})).body.code).toBe('ILLEGAL_TRANSITION');
  });
});

describe('the journal of an actor', () => {
  it('shows the cause and both states of each transition, newest first, in pages', async () => {
    const id = await device();
    for (const name of ['a', 'b', 'c']) await mine.call('PATCH', `/devices/${id}`, { name });
    await mine.call('POST', `/device/${id}/revoke`, { reason: 'lost' });
    const first = (await get(`/actors/device/${id}/journal?limit=3`)).body;
    expect(first.entries[0]).toEqual({
      ...{ version: 5, at: expect.any(String), by: mine.userId, event: 'revoke' },
      from: 'administration.active.one_key,link.offline',
      to: 'administration.revoked,link.offline',
      data: { reason: 'lost' },
    });
    const rest = (await get(`/actors/device/${id}/journal?limit=3&cursor=${first.next_cursor}`)).body;
    expect([...first.entries, ...rest.entries].map(({ version }) => version)).toEqual([5, 4, 3, 2, 1]);
    expect(rest.entries.at(-1)).toMatchObject({ event: 'register', from: null });
    expect(rest.next_cursor).toBeNull();
  });

  it('of a deleted device is kept', async () => {
    const id = await device();
    await mine.call('POST', `/device/${id}/revoke`, {});
    await mine.call('DELETE', `/devices/${id}`);
    expect((await get(`/actors/device/${id}`)).status).toBe(404);
    const { entries } = (await get(`/actors/device/${id}/journal`)).body;
    expect(entries.map(({ event }: { event: string }) => event)).toEqual(['delete', 'revoke', 'register']);
  });
});

describe('a platform operator', () => {
  it('without a tenant reads the tenant that they name', async () => {
    const token = await service.token(v7(), { scope: 'platform:admin' });
    const id = await device();
    await quarantine(id);
    const at = `?tenant_id=${mine.tenantId}`;
    expect((await get('/actors', { token })).body.code).toBe('TENANT_REQUIRED');
    expect((await get(`/actors${at}`, { token })).body.actors).toMatchObject([{ id }, { id: mine.tenantId }]);
    expect((await get(`/actors/device/${id}${at}`, { token })).body.actor).toMatchObject({
      quarantine_reason: 'it failed',
    });
    expect((await get(`/actors/device/${id}/journal${at}`, { token })).status).toBe(200);
    const release = (query: string) => mine.call('POST', `/actors/device/${id}/release${query}`, {}, { token });
    expect((await release('')).status).toBe(403);
    // The tenant is given only in the query.
    const inBody = await mine.call('POST', `/actors/device/${id}/release`, { tenant_id: mine.tenantId }, { token });
    expect(inBody.body.code).toBe('VALIDATION_FAILED');
    expect((await release(at)).body).toMatchObject({ status: 'released', actor: { id, quarantined: false } });
    expect((await get('/audit')).body.entries[0]).toMatchObject({ action: 'releaseActor', subject: `device:${id}` });
  });

  it('with too low a role in their own tenant must name it', async () => {
    const sub = v7();
    const token = await service.token(sub, { scope: 'platform:admin' });
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    await service.updateUser(body.user.id, { tenantId: mine.tenantId, role: 'viewer' });
    expect((await get('/actors', { token })).body.code).toBe('FORBIDDEN_ROLE');
    expect((await get(`/actors?tenant_id=${mine.tenantId}`, { token })).status).toBe(200);
  });
});

describe('machines', () => {
  it('are listed, and drawn as in the documentation', async () => {
    const { machines } = (await get('/machines')).body;
    expect(machines.map(({ kind }: { kind: string }) => kind)).toEqual(actorKinds);
    const { machine } = (await get('/machines/tenant')).body;
    expect(machine).toMatchObject({
      ...{ kind: 'tenant', version: 1, events: ['policy.set', 'register', 'resume', 'suspend', 'tier.set'] },
      diagram: expect.stringMatching(/^stateDiagram-v2/),
      page: expect.stringMatching(/^# The tenant machine/),
    });
    expect(machine.states.map(({ state }: { state: string }) => state)).toEqual([
      'unregistered',
      'active',
      'suspended',
    ]);
  });

  it('are also for platform operators, for any tenant; other users may not name one', async () => {
    const token = await service.token(v7(), { scope: 'platform:admin' });
    const kinds = (await get('/machines')).body;
    for (const query of ['', `?tenant_id=${mine.tenantId}`]) {
      expect((await get(`/machines${query}`, { token })).body).toEqual(kinds);
      expect((await get(`/machines/tenant${query}`, { token })).status).toBe(200);
    }
    expect((await get(`/machines?tenant_id=${v7()}`, { token })).status).toBe(404);
    expect((await get('/machines/lamp', { token })).status).toBe(404);
    expect((await get(`/machines?tenant_id=${mine.tenantId}`)).body.code).toBe('FORBIDDEN');
    expect((await get('/machines', { token: await service.token(v7()) })).body.code).toBe('TENANT_REQUIRED');
  });
});
