import { v7 } from 'uuid';
import { expect, it } from 'vitest';
import { AuditChain } from '../../src/services/audit-chain.ts';
import type { Store } from '../../src/store/contract.ts';
import { MemoryDatabase } from '../support/memory-store/database.ts';
import { openMemoryStore } from '../support/memory-store/store.ts';

const log = { debug() {}, info() {}, warn() {}, error() {} };
const tenantId = v7();

function append(store: Store, count = 1): Promise<void> {
  const rows = Array.from({ length: count }, (_, n) => ({
    ...{ id: v7(), tenantId, at: 1_000 + n, by: v7(), key: null, via: 'rest', action: 'createHome', subject: 'home:x' },
    ...{ outcome: 'done', requestId: v7(), address: null, client: null, count: 1 },
  }));
  return store.audit.append(rows);
}

it('a verification is in parts of 500 blocks, which continue each other', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const chain = new AuditChain(store, log);
  for (let n = 0; n < 620; n++) {
    await append(store);
    await chain.verify(tenantId, { sequence: Math.max(0, n - 1), hash: '' });
  }
  const first = await chain.verify(tenantId, null);
  expect(first).toMatchObject({ problem: null, blocks: 500, entries: 500 });
  const [sequence, hash = ''] = first.next?.split(':') ?? [];
  const second = await chain.verify(tenantId, { sequence: Number(sequence), hash });
  expect(second).toMatchObject({ problem: null, blocks: 120, entries: 120, next: null, head: first.head, unsealed: 0 });
});

it('a block has at most 1,000 entries', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  await append(store, 2_500);
  expect(await new AuditChain(store, log).verify(tenantId, null)).toMatchObject({ blocks: 3, entries: 2_500 });
});

it('entries of running transactions are not sealed, and are counted', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const chain = new AuditChain({ auditChain: { ...store.auditChain, isSettled: async () => false } }, log, {
    ...{ sealMs: 0, verifyMs: 0 },
  });
  await append(store, 3);
  expect(await chain.verify(tenantId, null)).toMatchObject({ problem: null, head: null, blocks: 0, unsealed: 3 });
  await chain.sealAll();
  expect((await store.auditChain.state(tenantId)).head).toBeNull();
});

it('two processes that seal at once add each entry to one block', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const chains = [new AuditChain(store, log), new AuditChain(store, log)];
  for (let n = 0; n < 5; n++) {
    await append(store, 3);
    await Promise.all(chains.map((chain) => chain.verify(tenantId, null)));
  }
  expect(await chains[0]?.verify(tenantId, null)).toMatchObject({ problem: null, entries: 15, unsealed: 0 });
});
