import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { done, refuse } from '../../src/domain/refusals.ts';
import { IdempotencyKeys } from '../../src/operations/idempotency.ts';
import { type Operation, operation } from '../../src/operations/operation.ts';
import { makePerform } from '../../src/operations/perform.ts';
import { payloadHash } from '../../src/protocol/canonical.ts';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { type CallResult, type HttpService, startHttpService } from '../support/http-service.ts';
import type { MemoryStore } from '../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
let tenantId: string;
beforeEach(async () => {
  service = await startHttpService();
  ({ token, tenantId } = await service.owner());
});
afterEach(() => service.close());

const create = (key: string, body: unknown = { home_name: 'One' }, more: { path?: string; token?: string } = {}) =>
  service.call('POST', more.path ?? '/v1/homes', {
    token: more.token ?? token,
    body,
    headers: { 'idempotency-key': key },
  });
const replayed = ({ headers }: CallResult) => headers.get('idempotent-replayed');

describe('a repeated request', () => {
  it('gets the stored response with the replay header, and changes nothing', async () => {
    const first = await create('k');
    const again = await create('k');
    expect([first.status, replayed(first)]).toEqual([201, null]);
    expect([again.status, replayed(again), again.body]).toEqual([201, 'true', first.body]);
    expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
    expect(service.store.homes.size).toBe(1);
  });

  it('is recognized under the other root, with a trailing slash, and with its members in another order', async () => {
    const first = await create('k', { home_name: 'One', timezone: 'Europe/Rome' });
    const body = '{ "timezone": "Europe/Rome", "home_name": "One" }';
    for (const path of ['/api/v1/homes', '/v1/homes/']) {
      const again = await create('k', body, { path });
      expect([replayed(again), again.body]).toEqual(['true', first.body]);
    }
  });

  it('whose secret was replaced or revoked since is refused, and changes nothing', async () => {
    const { body: home } = await create('k');
    const post = (path: string, body: unknown, key: string) => create(key, body, { path });
    const { body: device } = await post('/v1/device/register', { device_type: 'light', home_id: home.id }, 'a');
    const path = `/v1/device/${device.device_id}`;
    await post(`${path}/revoke`, {}, 'b');
    const reinstate = () => post(`${path}/reinstate`, { reason: 'found again' }, 'c');
    expect((await reinstate()).status).toBe(200);
    expect(replayed(await reinstate())).toBe('true');
    await post(`${path}/revoke`, {}, 'd');
    expect(await reinstate()).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
    const { body } = await service.call('GET', `/v1/devices/${device.device_id}`, { token });
    expect(body.device).toMatchObject({ revoked: true });
  });

  it('is a new request with another key, or on another path', async () => {
    const { body: home } = await create('k');
    expect(replayed(await create('l'))).toBeNull();
    const room = () => create('k', { name: 'Kitchen' }, { path: `/v1/homes/${home.id}/rooms` });
    expect(replayed(await room())).toBeNull();
    expect(replayed(await room())).toBe('true');
  });

  it('is a new request from another principal of the tenant', async () => {
    await create('k');
    const other = await service.member(tenantId, 'admin');
    expect(replayed(await create('k', { home_name: 'One' }, { token: other }))).toBeNull();
    expect(service.store.homes.size).toBe(2);
  });

  it('is recognized with another token of the same person', async () => {
    const subject = service.store.users.values().next().value?.sub ?? '';
    await create('k');
    expect(replayed(await create('k', { home_name: 'One' }, { token: await service.token(subject) }))).toBe('true');
  });

  it('reveals nothing of the former tenant to a user who moved to another one', async () => {
    const first = await create('k');
    const other = await service.owner();
    const user = [...service.store.users.values()].find((user) => user.tenantId === tenantId);
    await service.updateUser(user?.id ?? '', { tenantId: other.tenantId, role: 'admin' });
    const again = await create('k');
    expect([again.status, replayed(again)]).toEqual([201, null]);
    expect(again.body.id).not.toBe(first.body.id);
  });

  it('with another body is 422', async () => {
    await create('k');
    const { status, body } = await create('k', { home_name: 'Two' });
    expect([status, body.code]).toEqual([422, 'IDEMPOTENCY_MISMATCH']);
  });

  it('has no hash of its body in the store', async () => {
    const body = { home_name: 'One' };
    await create('k', body);
    const rows = JSON.stringify([...service.store.idempotencyRows.values()]);
    expect(rows).toContain('"key":"k"');
    expect(rows).not.toContain(payloadHash(body));
  });

  it('is audited once, also if the outcome of the first commit was unknown', async () => {
    const audited = async () => (await service.call('GET', '/v1/audit?action=createHome', { token })).body.entries;
    const { records } = service.store;
    const { insertHome } = records;
    records.insertHome = async (...given) => {
      await insertHome(...given);
      throw new CommitUnknown('connection lost');
    };
    expect((await create('k')).status).toBe(503);
    records.insertHome = insertHome;
    expect(await audited()).toEqual([]);
    const { body } = await create('k');
    expect(replayed(await create('k'))).toBe('true');
    expect(await audited()).toMatchObject([{ subject: `home:${body.id}`, outcome: 'done', via: 'rest' }]);
    await create('l');
    await create('l');
    expect(await audited()).toHaveLength(2);
  });

  it('after 24 hours is a new request', async () => {
    const mine = () => service.token('ada', { ttlS: 3_600 });
    const { tenantId } = await service.owner();
    await service.call('GET', '/v1/auth/me', { token: await mine() });
    await service.updateUser([...service.store.users.values()].find(({ sub }) => sub === 'ada')?.id ?? '', {
      tenantId,
      role: 'owner',
    });
    await create('k', undefined, { token: await mine() });
    service.clock.advance(24 * 3_600_000 - 1);
    expect(replayed(await create('k', undefined, { token: await mine() }))).toBe('true');
    service.clock.advance(2);
    expect(replayed(await create('k', undefined, { token: await mine() }))).toBeNull();
  });

  it('is refused to a user who lost the permission', async () => {
    await create('k');
    const [user] = [...service.store.users.values()];
    await service.updateUser(user?.id ?? '', { role: 'viewer' });
    expect((await create('k')).body.code).toBe('FORBIDDEN_ROLE');
  });

  it('finds its registered tenant although its user now has one', async () => {
    const newUser = await service.token('new');
    const register = () => create('k', { tenant_name: 'Mine' }, { path: '/v1/tenant/register', token: newUser });
    const first = await register();
    const again = await register();
    expect([again.status, replayed(again), again.body]).toEqual([201, 'true', first.body]);
  });
});

it('the stored response is sealed', async () => {
  const { body } = await create('k');
  const [row] = [...service.store.idempotencyRows.values()];
  expect(row).toMatchObject({ method: 'POST', path: '/homes', key: 'k', state: 'done' });
  expect(JSON.stringify(row)).not.toContain(body.id);
});

it('a refusal is not stored: the next attempt is new', async () => {
  const path = '/v1/groups';
  const { status } = await create('k', { name: 'x', device_ids: ['0190a000-0000-7000-8000-000000000000'] }, { path });
  expect(status).toBe(404);
  expect(service.store.idempotencyRows.size).toBe(0);
  expect((await create('k', { name: 'x' }, { path })).status).toBe(201);
});

it('nothing is stored if the effect was not committed', async () => {
  service.store.records.insertHome = () => Promise.reject(new StoreUnavailable('away'));
  expect((await create('k')).status).toBe(503);
  expect(service.store.idempotencyRows.size).toBe(0);
});

it('the key is ignored for requests that change nothing, and not stored without a user', async () => {
  const headers = { 'idempotency-key': 'k' };
  expect((await service.call('GET', '/v1/homes', { token, headers })).status).toBe(200);
  expect((await service.call('POST', '/v1/auth/logout', { headers })).status).toBe(200);
  expect(service.store.idempotencyRows.size).toBe(0);
});

it.each([
  ['', ' '],
  ['a blank', 'a b'],
  ['256 characters', 'x'.repeat(256)],
  ['umlauts', 'ü'],
])('a key with %s is refused', async (_, key) => {
  const { status, body } = await create(key);
  expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
});

describe('while the first request runs', () => {
  let release: () => void;
  const held = () =>
    new Promise<void>((resolve) => {
      release = resolve;
    });

  it('a second one gets 409 with Retry-After, and with another body 422', async () => {
    const insert = service.store.records.insertHome;
    const wait = held();
    let started = false;
    service.store.records.insertHome = async (...given) => {
      started = true;
      await wait;
      return insert(...given);
    };
    const first = create('k');
    await expect.poll(() => started).toBe(true);
    const second = await create('k');
    expect([second.status, second.body.code, second.headers.get('retry-after')]).toEqual([409, 'CONFLICT', '1']);
    expect((await create('k', { home_name: 'Two' })).status).toBe(422);
    release();
    expect((await first).status).toBe(201);
    expect(replayed(await create('k'))).toBe('true');
  });

  it('concurrent requests create one record', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => create('k')));
    expect(service.store.homes.size).toBe(1);
    expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true);
  });
});

describe('an operation with several targets', () => {
  const made: string[] = [];
  let crash = false;
  const many = operation({
    name: 'many',
    summary: 'Make three things',
    input: z.strictObject({}),
    output: z.object({ ids: z.array(z.string()) }),
    role: 'user',
    scope: null,
    changes: true,
    needs: ['newId'],
    async run({ newId }, { idempotent }) {
      const ids = (idempotent?.reserved as string[] | null) ?? [newId(), newId(), newId()];
      if (idempotent?.reserved === null) await idempotent.reserve(ids);
      for (const id of ids) {
        if (!made.includes(id)) made.push(id);
        if (crash) throw new StoreUnavailable('away');
      }
      return done({ body: { ids } });
    },
  });

  it('that was interrupted continues with its reserved ids', async () => {
    const request = async () => {
      const who = await service.identity.authenticate(token, {
        via: 'rest',
        requestId: service.services.newId(),
        address: null,
      });
      if (!who.ok) throw new Error('not signed in');
      const keyed = { key: 'k', method: 'POST', path: '/many', body: {} };
      // A new `perform` each time: the process that ran the first one is gone.
      return makePerform(service.services, new StoreLiveness(service.store))(many, {
        input: {},
        caller: who.value,
        keyed,
      });
    };
    crash = true;
    expect(await request()).toMatchObject({ ok: false, refusal: { code: 'STORE_UNAVAILABLE' } });
    expect(made).toHaveLength(1);
    expect([...service.store.idempotencyRows.values()][0]?.state).toBe('running');
    crash = false;
    const second = await request();
    expect(made).toHaveLength(3);
    expect(second).toEqual({ ok: true, value: { body: { ids: made } } });
    expect(await request()).toMatchObject({ ok: true, value: { body: { ids: made }, replayed: true } });
  });
});

it('the policy is checked before a stored response is read', async () => {
  let allowed = true;
  const guarded: Operation = operation({
    name: 'guarded',
    summary: 'Something the policy decides on',
    input: z.strictObject({}),
    output: z.object({ secret: z.string() }),
    role: 'user',
    scope: null,
    changes: true,
    needs: [],
    policy: async () => (allowed ? done(null) : refuse('CONFIRMATION_FAILED', 'Not you.')),
    run: async () => done({ status: 409, body: { secret: 'of a dry run' } }),
  });
  const who = await service.identity.authenticate(token, {
    via: 'rest',
    requestId: service.services.newId(),
    address: null,
  });
  if (!who.ok) throw new Error('not signed in');
  const keyed = { key: 'k', method: 'POST', path: '/guarded', body: {} };
  const request = () => service.perform(guarded, { input: {}, caller: who.value, keyed });
  expect(await request()).toEqual({ ok: true, value: { status: 409, body: { secret: 'of a dry run' } } });
  expect(await request()).toMatchObject({
    ok: true,
    value: { status: 409, body: { secret: 'of a dry run' }, replayed: true },
  });
  allowed = false;
  expect(await request()).toMatchObject({ ok: false, refusal: { code: 'CONFIRMATION_FAILED' } });
});

describe('a request that never completes', () => {
  const operation: Operation = {
    ...{ name: 'slow', summary: 'Something slow', input: z.strictObject({}), output: z.object({ n: z.int() }) },
    ...{ role: 'user', scope: null, changes: true, needs: [] },
    run: async () => done({ body: {} }),
  };
  const claiming = async () => {
    const who = await service.identity.authenticate(token, {
      via: 'rest',
      requestId: service.services.newId(),
      address: null,
    });
    if (!who.ok) throw new Error('not signed in');
    return { caller: who.value, operation, request: { key: 'k', method: 'POST', path: '/slow', body: {} } };
  };

  it('holds its key for two minutes, and returns the response of its successor if it completes later', async () => {
    let now = 0;
    const keys = new IdempotencyKeys(service.services, () => now);
    const requested = await claiming();
    const ended = Promise.withResolvers<void>();
    const first = keys.run(requested, () => ended.promise.then(() => done({ body: { n: 1 } })));
    const again = () => keys.run(requested, async () => done({ body: { n: 2 } }));
    now = 119_999;
    expect(await again()).toMatchObject({ ok: false, refusal: { code: 'CONFLICT', retryAfterS: 1 } });
    now = 120_000;
    expect(await again()).toEqual({ ok: true, value: { body: { n: 2 } } });
    ended.resolve();
    expect(await first).toMatchObject({ ok: true, value: { body: { n: 2 }, replayed: true } });
    expect(keys.size).toBe(0);
  });

  it('stores nothing if its commit ends after its caller was answered', async () => {
    const keys = new IdempotencyKeys(service.services);
    const requested = await claiming();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const lost = keys.run(requested, () => Promise.reject(new CommitUnknown('no answer', { ended })));
    await expect(lost).rejects.toBeInstanceOf(CommitUnknown);
    expect(keys.size).toBe(1);
    resolve();
    await expect.poll(() => keys.size).toBe(0);
  });
});
