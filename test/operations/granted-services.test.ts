import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { done } from '../../src/domain/refusals.ts';
import { type Caller, type Operation, operation, type Services } from '../../src/operations/operation.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';

let service: HttpService;
let caller: Caller;
beforeAll(async () => {
  service = await startHttpService();
  const { token } = await service.owner();
  const attempt = { via: 'test', requestId: service.services.newId(), address: null };
  const authenticated = await service.identity.authenticate(token, attempt);
  if (!authenticated.ok) throw new Error('not signed in');
  caller = authenticated.value;
});
afterAll(() => service.close());

const received: unknown[] = [];
const base = {
  name: 'record',
  summary: 'Record the services that it receives',
  input: z.strictObject({}),
  output: z.object({}),
  role: 'user',
  scope: null,
  changes: false,
} as const;
const recording = operation({
  ...base,
  needs: ['clock', 'newId'],
  policy: async (services) => {
    received.push(services);
    return done(null);
  },
  run: async (services) => {
    received.push(services);
    return done({ body: {} });
  },
});
const perform = (one: Operation) => service.perform(one, { input: {}, caller, keyed: null });

describe('an operation', () => {
  it('receives the services that it declares and no others', async () => {
    received.length = 0;
    expect(await perform(recording)).toMatchObject({ ok: true });
    const { clock, newId } = service.services;
    expect(received).toEqual([
      { clock, newId },
      { clock, newId },
    ]);
  });

  it('does not compile where it uses a service that it does not declare, and fails where it gets around that', async () => {
    const undeclared = operation({
      ...base,
      needs: ['clock'],
      // @ts-expect-error: `store` is not declared.
      run: async ({ store }) => done({ body: { devices: await store.devices.count() } }),
    });
    expect(await perform(undeclared)).toMatchObject({ ok: false, refusal: { code: 'INTERNAL' } });
  });

  it('receives the same object at each call, which it cannot change', async () => {
    received.length = 0;
    await perform(recording);
    await perform(recording);
    const [first] = received;
    expect(received).toHaveLength(4);
    expect(received.every((services) => services === first)).toBe(true);
    expect(() => Object.assign(first as Services, { store: service.store })).toThrow(TypeError);
  });
});
