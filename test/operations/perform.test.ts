import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { EventFailed, NoSuchActor, Overloaded, Quarantined } from '../../src/actors/contract.ts';
import type { RefusalCode } from '../../src/domain/refusals.ts';
import { done } from '../../src/domain/refusals.ts';
import { routes } from '../../src/edges/rest/routes.ts';
import { idOf } from '../../src/operations/inputs.ts';
import { type Caller, type Operation, operation } from '../../src/operations/operation.ts';
import { flagNames } from '../../src/services/flags.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../../src/store/contract.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import type { MemoryStore } from '../support/memory-store.ts';
import { slow } from '../support/slow.ts';

let service: HttpService<MemoryStore>;
let caller: Caller;
beforeAll(async () => {
  service = await startHttpService();
  const { token } = await service.owner();
  const who = await service.identity.authenticate(token, {
    via: 'test',
    requestId: service.services.newId(),
    address: null,
  });
  if (!who.ok) throw new Error('not signed in');
  caller = who.value;
});
afterAll(() => service.close());

const base = operation({
  name: 'base',
  summary: 'Nothing much',
  input: z.strictObject({}),
  output: z.object({ ran: z.boolean() }),
  role: 'user',
  scope: 'read:devices',
  changes: false,
  needs: [],
  run: async () => done({ body: { ran: true } }),
});

async function codeOf(changes: Partial<Operation>, by: Partial<Caller> = {}, input: unknown = {}) {
  const outcome = await service.perform({ ...base, ...changes }, { input, caller: { ...caller, ...by }, keyed: null });
  return outcome.ok ? 'ran' : outcome.refusal.code;
}

describe('authorization', () => {
  const key = { kind: 'user', id: 'x', key: 'tk_12345', person: false } as const;
  it.each<[string, RefusalCode | 'ran', Partial<Operation>, Partial<Caller>]>([
    ['a member with the role', 'ran', {}, {}],
    ['an anonymous caller', 'UNAUTHENTICATED', {}, { user: null }],
    ['an anonymous caller of a public operation', 'ran', { role: null }, { user: null }],
    ['a person without a tenant', 'TENANT_REQUIRED', {}, { tenantId: null, role: 'none' }],
    [
      'a person without a tenant on an operation for role none',
      'ran',
      { role: 'none' },
      { tenantId: null, role: 'none' },
    ],
    ['too low a role', 'FORBIDDEN_ROLE', {}, { role: 'viewer' }],
    ['the role none in a tenant', 'FORBIDDEN_ROLE', { role: 'viewer' }, { role: 'none' }],
    ['the scope', 'ran', {}, { scopes: ['read:devices'] }],
    ['a wider scope', 'ran', {}, { scopes: ['*:devices'] }],
    ['another scope', 'INSUFFICIENT_SCOPE', {}, { scopes: ['write:devices', 'read:homes'] }],
    ['the role is checked before the scope', 'FORBIDDEN_ROLE', {}, { role: 'viewer', scopes: ['read:homes'] }],
    ['a caller who is not a platform operator', 'FORBIDDEN', { platformOnly: true }, {}],
    [
      'a platform operator without a tenant',
      'ran',
      { platformOnly: true, role: 'none' },
      { platformAdmin: true, tenantId: null },
    ],
    ['a key on an operation that requires a person', 'FORBIDDEN', { personOnly: true }, { principal: key }],
  ])('%s: %s', async (_, code, changes, by) => {
    expect(await codeOf(changes, by)).toBe(code);
  });
});

describe('flags', () => {
  it.each<[string, string, string, Partial<Operation>]>([
    ['maintenance refuses changes', 'maintenance_mode', 'MAINTENANCE', { changes: true }],
    ['maintenance allows reads', 'maintenance_mode', 'ran', {}],
    ['maintenance allows its exceptions', 'maintenance_mode', 'ran', { changes: true, inMaintenance: true }],
    ['registration', 'registration_lock', 'REGISTRATION_LOCKED', { stoppedBy: 'registration_lock' }],
    ['commands', 'commands_disabled', 'COMMANDS_DISABLED', { stoppedBy: 'commands_disabled' }],
    ['cognition', 'cognition_disabled', 'COGNITION_DISABLED', { stoppedBy: 'cognition_disabled' }],
    ['another flag does not matter', 'registration_lock', 'ran', { stoppedBy: 'commands_disabled', changes: true }],
  ])('%s', async (_, flag, code, changes) => {
    const name = flagNames.find((name) => name === flag);
    if (name === undefined) throw new Error(flag);
    await service.flags.set(name, true);
    const found = await codeOf(changes);
    await service.flags.set(name, false);
    expect(found).toBe(code);
    expect(await codeOf(changes)).toBe('ran');
  });
});

describe('input', () => {
  const input = z.strictObject({ id: idOf('device'), room_id: idOf('room').optional(), name: z.string() });
  const request = (given: unknown) => service.perform({ ...base, input }, { input: given, caller, keyed: null });
  const id = '0190a000-0000-7000-8000-000000000000';

  it('an id that is not a UUID is NOT_FOUND with its noun, without another fault', async () => {
    expect(await request({ id: 'x', name: 'y' })).toMatchObject({
      refusal: { code: 'NOT_FOUND', detail: 'Device not found.' },
    });
    expect(await request({ id, room_id: '', name: 'y' })).toMatchObject({ refusal: { detail: 'Room not found.' } });
    expect(await request({ id: 'x' })).toMatchObject({ refusal: { code: 'VALIDATION_FAILED' } });
    expect(await request({ id: 7, name: 'y' })).toMatchObject({ refusal: { code: 'VALIDATION_FAILED' } });
    expect(await request({ name: 'y' })).toMatchObject({ refusal: { code: 'VALIDATION_FAILED' } });
  });

  it.each([[null], ['x'], [[]], [7], [undefined]])('%j is VALIDATION_FAILED', async (given) => {
    expect(await request(given)).toMatchObject({ refusal: { code: 'VALIDATION_FAILED' } });
  });

  it('strings that no store accepts are refused on every wire', async () => {
    for (const name of ['a\0b', '\ud800']) {
      expect(await request({ id, name })).toMatchObject({ refusal: { code: 'VALIDATION_FAILED' } });
    }
  });
});

describe('faults', () => {
  it.each<[Error, RefusalCode, number | undefined, boolean]>([
    [new StoreUnavailable('connect ECONNREFUSED 10.0.0.7'), 'STORE_UNAVAILABLE', 2, false],
    [new CommitUnknown('in COMMIT'), 'STORE_UNAVAILABLE', 2, false],
    [new Overloaded('mailbox'), 'OVERLOADED', 1, false],
    [new NoSuchActor('device'), 'NOT_FOUND', undefined, false],
    [new Quarantined('device'), 'INTERNAL', undefined, true],
    [new EventFailed('boom'), 'INTERNAL', undefined, true],
    [new DataRefused('22P05', 'SELECT secret'), 'VALIDATION_FAILED', undefined, true],
    [new TypeError('secret is not a function'), 'INTERNAL', undefined, true],
  ])('%o becomes %s', async (fault, code, retryAfterS, logged) => {
    service.errors.length = 0;
    const outcome = await service.perform(
      { ...base, run: () => Promise.reject(fault) },
      { input: {}, caller, keyed: null },
    );
    expect(outcome).toMatchObject({ ok: false, refusal: { code } });
    if (outcome.ok) return;
    expect(outcome.refusal.retryAfterS).toBe(retryAfterS);
    expect(outcome.refusal.detail).not.toContain(fault.message);
    expect(service.errors).toEqual(logged ? [{ request_id: caller.requestId, operation: 'base', err: fault }] : []);
  });

  it('an unresponsive store is STORE_UNAVAILABLE after two seconds', slow, async () => {
    service.store.reachable = false;
    const began = performance.now();
    const code = await codeOf({ run: () => new Promise(() => {}) });
    service.store.reachable = true;
    expect(code).toBe('STORE_UNAVAILABLE');
    expect(performance.now() - began).toBeGreaterThan(1_900);
  });

  it('an error thrown before the first promise is caught too', async () => {
    const run = () => {
      throw new Error('boom');
    };
    expect(await codeOf({ run })).toBe('INTERNAL');
  });
});

describe('every operation', () => {
  it('has a unique name', () => {
    const operations = new Set(routes.map((route) => route.operation));
    expect(new Set([...operations].map(({ name }) => name)).size).toBe(operations.size);
  });

  it.each(routes.map((route) => [route.operation.name, route.operation] as const))(
    '%s refuses unknown fields',
    (_, { input }) => {
      const forms = (input instanceof z.ZodUnion ? input.options : [input]) as z.ZodType[];
      for (const form of forms) {
        const issues = form.safeParse({ zz_unknown: 1 }).error?.issues ?? [];
        expect(issues.some((issue) => issue.code === 'unrecognized_keys' && issue.keys.includes('zz_unknown'))).toBe(
          true,
        );
      }
    },
  );

  it.each(routes.map((route) => [`${route.method} ${route.path}`, route] as const))(
    '%s accepts the members of its path',
    (_, route) => {
      const input = route.operation.input as z.ZodObject;
      for (const [, name] of route.path.matchAll(/\{(\w+)\}/g)) expect(Object.keys(input.shape)).toContain(name);
    },
  );

  it('that changes a tenant has a scope', () => {
    for (const { operation } of routes) {
      // Platform operators have no tenant; approving a command line, or a browser by a link, gives it at most the
      // scopes of
      // the approving user.
      if (operation.role === null || !operation.changes) continue;
      if (operation.platformOnly || ['approveCliHandshake', 'createSignInLink'].includes(operation.name)) continue;
      expect([operation.name, operation.scope]).not.toContain(null);
    }
  });
});
