import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { LocalShards } from '../../src/actors/owned-shards.ts';
import { done } from '../../src/domain/refusals.ts';
import { SHARD_COUNT, shardOf } from '../../src/domain/shards.ts';
import { type Caller, type Operation, operation } from '../../src/operations/operation.ts';
import { testClock } from '../support/clock.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import type { MemoryStore } from '../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let shards: LocalShards;
let caller: Caller;
let shard: Set<number>;
beforeEach(async () => {
  shards = new LocalShards();
  shards.add(Array(SHARD_COUNT).keys());
  service = await startHttpService({ shards });
  const { token, tenantId } = await service.owner();
  const who = await service.identity.authenticate(token, {
    ...{ via: 'test', requestId: service.services.newId(), address: null },
  });
  if (!who.ok) throw new Error('not signed in');
  caller = who.value;
  shard = new Set([shardOf(tenantId)]);
});
afterEach(() => service.close());

const clock = testClock();
const isIdle = () => shards.operations.whenEnded(shard, clock, 0);

const change = operation({
  name: 'change',
  summary: 'Changes nothing',
  input: z.strictObject({}),
  output: z.null(),
  role: 'user',
  scope: 'write:devices',
  changes: true,
  needs: [],
  run: async () => done({ body: null }),
});

async function perform(changes: Partial<Operation>, upload: AsyncIterable<Uint8Array> | null = null) {
  const outcome = await service.perform({ ...change, ...changes }, { input: {}, caller, keyed: null, upload });
  return outcome.ok ? 'ran' : outcome.refusal;
}

describe('a change in a tenant', () => {
  it.each<[string, boolean, Partial<Operation>]>([
    ['counts', false, {}],
    ['does not count if it only reads', true, { changes: false }],
    ['does not count if it concerns all tenants', true, { acrossTenants: true }],
  ])('%s as an operation of its shard until it has ended', async (_, idle, changes) => {
    let idleInside: boolean | null = null;
    const run = async () => {
      idleInside = await isIdle();
      return done({ body: null });
    };
    expect(await perform({ ...changes, run })).toBe('ran');
    expect([idleInside, await isIdle()]).toEqual([idle, true]);
  });

  it('has ended when it was refused or has failed', async () => {
    expect(await perform({ input: z.strictObject({ missing: z.string() }) })).toMatchObject({
      code: 'VALIDATION_FAILED',
    });
    const fails = async () => {
      throw new Error('bug');
    };
    expect(await perform({ run: fails })).toMatchObject({ code: 'INTERNAL' });
    expect(await isIdle()).toBe(true);
  });

  it('is refused with 503 while its shard leaves, and not executed', async () => {
    shards.startLeaving(shard);
    const run = () => Promise.reject(new Error('executed'));
    expect(await perform({ run })).toMatchObject({ code: 'STORE_UNAVAILABLE', retryAfterS: 2 });
    shards.stay(shard);
    expect(await perform({})).toBe('ran');
  });
});

describe('an upload', () => {
  const reads = {
    run: async (_services: unknown, { upload }: { upload?: AsyncIterable<Uint8Array> | null }) => {
      const read: string[] = [];
      for await (const chunk of upload ?? []) read.push(String(chunk));
      return done({ body: read });
    },
  } as unknown as Partial<Operation>;

  it('is passed on completely, and its source is closed', async () => {
    let closed = false;
    async function* chunks() {
      try {
        yield Buffer.from('one');
        yield Buffer.from('two');
      } finally {
        closed = true;
      }
    }
    const outcome = await service.perform(
      { ...change, ...reads },
      { input: {}, caller, keyed: null, upload: chunks() },
    );
    expect(outcome).toMatchObject({ ok: true, value: { body: ['one', 'two'] } });
    expect([closed, await isIdle()]).toEqual([true, true]);
  });

  it('whose client sends nothing more is refused with 503 when its shard leaves', async () => {
    const waiting = Promise.withResolvers<void>();
    async function* chunks() {
      yield Buffer.from('one');
      waiting.resolve();
      await new Promise(() => {});
    }
    const refused = perform(reads, chunks());
    await waiting.promise;
    shards.startLeaving(shard);
    shards.operations.interrupt(shard);
    expect(await refused).toMatchObject({ code: 'STORE_UNAVAILABLE', retryAfterS: 2 });
    expect(await isIdle()).toBe(true);
  });

  it('that has arrived completely is not interrupted', async () => {
    const arrived = Promise.withResolvers<void>();
    const proceed = Promise.withResolvers<void>();
    const run = async (services: never, call: never) => {
      const outcome = await reads.run?.(services, call);
      arrived.resolve();
      await proceed.promise;
      return outcome;
    };
    const outcome = perform(
      { run } as never,
      (async function* chunks() {
        yield Buffer.from('one');
      })(),
    );
    await arrived.promise;
    shards.operations.interrupt(shard);
    proceed.resolve();
    expect(await outcome).toBe('ran');
  });
});
