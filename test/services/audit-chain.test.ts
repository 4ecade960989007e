import { v7 } from 'uuid';
import { expect, it, vi } from 'vitest';
import { parseHead } from '../../src/domain/audit-chain.ts';
import { AuditChain } from '../../src/services/audit-chain.ts';
import type { Store } from '../../src/store/contract.ts';
import { MemoryDatabase } from '../support/memory-store/database.ts';
import { openMemoryStore } from '../support/memory-store/store.ts';

const log = { debug() {}, info() {}, warn() {}, error() {} };
const DAY = 86_400_000;
const NOW = 400 * DAY;
const clock = { now: () => NOW };
const tenantId = v7();

const chainOn = (store: Pick<Store, 'auditChain'>, waits?: { sealMs: number; verifyMs: number }) =>
  new AuditChain({ store, clock, log, retentionDays: 30 }, waits);

function append(store: Store, count = 1, since = 1_000, tenant = tenantId): Promise<void> {
  const rows = Array.from({ length: count }, (_, n) => ({
    ...{
      id: v7(),
      tenantId: tenant,
      at: since + n,
      by: v7(),
      key: null,
      via: 'rest',
      action: 'createHome',
      subject: 'home:x',
    },
    ...{ outcome: 'done', requestId: v7(), address: null, client: null, count: 1 },
  }));
  return store.audit.append(rows);
}

it('a verification is in parts of 500 blocks, which continue each other', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const chain = chainOn(store);
  for (let n = 0; n < 620; n++) {
    await append(store);
    await chain.verify(tenantId, { sequence: Math.max(0, n - 1), hash: '', lastAt: null });
  }
  const first = await chain.verify(tenantId, null);
  expect(first).toMatchObject({ problem: null, blocks: 500, entries: 500 });
  const second = await chain.verify(tenantId, parseHead(first.next ?? ''));
  expect(second).toMatchObject({ problem: null, blocks: 120, entries: 120, next: null, head: first.head, unsealed: 0 });
});

it('a block has at most 1,000 entries', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  await append(store, 2_500);
  expect(await chainOn(store).verify(tenantId, null)).toMatchObject({ blocks: 3, entries: 2_500 });
});

it('entries of running transactions are not sealed, and are counted', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const unsettled = { auditChain: { ...store.auditChain, isSettled: async () => false } };
  const chain = chainOn(unsettled, { sealMs: 0, verifyMs: 0 });
  await append(store, 3);
  expect(await chain.verify(tenantId, null)).toMatchObject({ problem: null, head: null, blocks: 0, unsealed: 3 });
  await chain.sealAll();
  expect((await store.auditChain.state(tenantId)).head).toBeNull();
});

it('a pass that is stopped does not wait for running transactions', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const asked = Promise.withResolvers<void>();
  const isSettled = async () => {
    asked.resolve();
    return false;
  };
  const chain = chainOn({ auditChain: { ...store.auditChain, isSettled } }, { sealMs: 3_600_000, verifyMs: 0 });
  let stopped = false;
  const sealing = chain.sealAll(() => stopped);
  await asked.promise;
  stopped = true;
  await sealing;
});

it('a pass that is stopped seals no further tenant', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const seal = vi.fn(store.auditChain.seal);
  const tenants = [v7(), v7()];
  const unsealedTenants = async () => ({ tenants, next: null });
  const chain = chainOn({ auditChain: { ...store.auditChain, seal, unsealedTenants } });
  for (const tenant of tenants) await append(store, 1, 1_000, tenant);
  await chain.sealAll(() => seal.mock.calls.length > 0);
  expect(seal.mock.calls.map(([tenant]) => tenant)).toEqual(tenants.slice(0, 1));
});

it('two processes that seal at once add each entry to one block', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const chains = [chainOn(store), chainOn(store)];
  for (let n = 0; n < 5; n++) {
    await append(store, 3);
    await Promise.all(chains.map((chain) => chain.verify(tenantId, null)));
  }
  expect(await chains[0]?.verify(tenantId, null)).toMatchObject({ problem: null, entries: 15, unsealed: 0 });
});

/** A store with one block for each time, on which `beforeBlocks` runs when a verification reads blocks. */
async function sealedAt(...times: number[]) {
  const store = openMemoryStore(new MemoryDatabase());
  for (const at of times) {
    await append(store, 1, at);
    await chainOn(store).verify(tenantId, null);
  }
  const prune = (days: number) => store.retention.prune(NOW, { commands: days, journal: days }, 100);
  const { blocks } = store.auditChain;
  const beforeBlocks = (change: () => Promise<unknown>) =>
    chainOn({
      auditChain: {
        ...store.auditChain,
        async blocks(...args) {
          await change();
          return blocks(...args);
        },
      },
    });
  return { store, prune, beforeBlocks };
}

it('blocks that retention deletes during a verification are not missing', async () => {
  const { prune, beforeBlocks } = await sealedAt(1, 2, 3, NOW - DAY);
  const chain = beforeBlocks(() => prune(30));
  expect(await chain.verify(tenantId, null)).toMatchObject({ problem: null, blocks: 1, expired: 0 });
});

it('all blocks may be deleted during a verification', async () => {
  const { prune, beforeBlocks } = await sealedAt(1, 2, 3);
  expect(await beforeBlocks(() => prune(30)).verify(tenantId, null)).toMatchObject({ problem: null, blocks: 0 });
});

it('a head whose block is deleted while it is compared is not one of a shorter chain', async () => {
  const { store, prune, beforeBlocks } = await sealedAt(1, 2, NOW - DAY);
  const [first] = await store.auditChain.blocks(tenantId, 0, 1);
  if (first === undefined) throw new Error('no block');
  const report = await beforeBlocks(() => prune(30)).verify(tenantId, first);
  expect(report.problem).toMatch(/^Block 1 is no longer stored/);
});

it('retention between two parts of a verification does not end it', async () => {
  const { store, prune } = await sealedAt(1, 2, 3, NOW - DAY);
  const [first] = await store.auditChain.blocks(tenantId, 0, 1);
  await prune(30);
  const next = { ...(first as NonNullable<typeof first>), continues: true };
  expect(await chainOn(store).verify(tenantId, next)).toMatchObject({ problem: null, blocks: 1 });
});

it('a block that is missing is reported, although retention runs', async () => {
  const { store } = await sealedAt(1, 2, NOW - 2 * DAY, NOW - DAY);
  let days = 350;
  const chain = chainOn({
    auditChain: {
      ...store.auditChain,
      async blocks(...args) {
        days -= 1;
        await store.retention.prune(NOW, { commands: days, journal: days }, 100);
        return (await store.auditChain.blocks(...args)).filter(({ sequence }) => sequence !== 3);
      },
    },
  });
  expect((await chain.verify(tenantId, null)).problem).toMatch(/^Block 3 is missing/);
});
