import { expect, it } from 'vitest';
import { commandStatuses } from '../../../src/domain/command.ts';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import type { IdempotencyRow } from '../../../src/store/contract.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { retentionStore } from '../../../src/store/postgres/retention.ts';
import { commandCommit, deviceCommit, idempotencyRow, journalEntry, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;
const days = { commands: 90, journal: 365 };
const NOW = Date.UTC(2026, 10, 22);

/** A UUID version 7 created at that time. */
function idAt(at: number): string {
  const hex = at.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}${newId().slice(13)}`;
}

const caOf = (): DeviceCa => ({
  ...{ id: newId(), tenantId: newId(), name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f' },
  ...{ subjectHash: newId(), publicKeyHash: newId(), subject: 'CN=CA', notAfter: 99, registration: null },
  ...{ createdBy: newId(), createdAt: 10 },
});

eachStore('the time of the last pruning', (backend) => {
  it('is that of the first start until a pruning has ended', async () => {
    const { retention } = backend().store;
    expect(await retention.lastPrunedAt()).toBeNull();
    for (const now of [5, 7]) await retention.begin(now);
    expect(await retention.lastPrunedAt()).toBe(5);
    for (const now of [NOW, NOW - DAY]) {
      await retention.prune(now, days, 500);
      await retention.begin(9);
      expect(await retention.lastPrunedAt()).toBe(now);
    }
  });
});

eachStore('retention', (backend) => {
  const commitAll = (...actors: ReturnType<typeof commandCommit>[]) => backend().store.actors.commit(actors);
  const left = async (kind: 'command' | 'device', ids: string[]) =>
    new Set((await backend().store.actors.load(kind, ids)).map((actor) => actor.ref.id));
  const old = (age: number, status: (typeof commandStatuses)[number] = 'succeeded') => {
    const at = NOW - age * DAY;
    const id = idAt(at);
    return commandCommit({ id, columns: { status, created_at: at }, journal: [journalEntry(1, { at })] });
  };
  const prune = (batch = 2) => backend().store.retention.prune(NOW, days, batch);

  it('deletes commands past their retention in batches, except open ones and those with pending rows', async () => {
    const fresh = old(89);
    const ended = [old(91), old(91, 'failed'), old(400), old(91, 'timed_out'), old(92, 'expired')];
    const open = commandStatuses
      .filter((status) => !['rejected', 'succeeded', 'failed', 'timed_out', 'expired', 'cancelled'].includes(status))
      .map((status) => old(500, status));
    const timed = old(91);
    timed.timers.set.push({ ref: timed.ref, id: 'verification', event: 'over', dueAt: NOW });
    const sender = old(91);
    sender.outbox.push({
      n: 0,
      output: { type: 'commands.tell', deviceId: newId(), event: { type: 'device.revoked', deviceId: newId() } },
    });
    await commitAll(fresh, ...ended, ...open, timed, sender);
    // The ended commands, and the journal of those older than a year.
    expect(await prune()).toBe(ended.length + 1);
    const all = [fresh, ...ended, ...open, timed, sender];
    const kept = await left(
      'command',
      all.map((commit) => commit.ref.id),
    );
    expect(kept).toEqual(new Set([fresh, ...open, timed, sender].map((commit) => commit.ref.id)));
    expect(await prune()).toBe(0);
  });

  it('keeps the journal longer than its command, and that of an open one while it is open', async () => {
    const young = old(100);
    const oldOne = old(366);
    const open = old(366, 'dispatched');
    const device = deviceCommit({ journal: [1, 366].map((age, n) => journalEntry(n + 1, { at: NOW - age * DAY })) });
    await commitAll(young, oldOne, open, device);
    await prune();
    const { actors } = backend().store;
    expect(await left('command', [young.ref.id])).toEqual(new Set());
    expect(await actors.journal(young.ref, 9)).toHaveLength(1);
    expect(await actors.journal(oldOne.ref, 9)).toEqual([]);
    expect(await actors.journal(open.ref, 9)).toHaveLength(1);
    expect((await actors.journal(device.ref, 9)).map((entry) => entry.version)).toEqual([1]);
    expect(await left('device', [device.ref.id])).toEqual(new Set([device.ref.id]));
  });

  it('is exact to the millisecond: what is as old as the retention is kept, what is older is deleted', async () => {
    const at = (age: number, more: number) => NOW - age * DAY - more;
    const aged = (age: number, more: number) => {
      const createdAt = at(age, more);
      return commandCommit({ id: idAt(createdAt), columns: { status: 'succeeded', created_at: createdAt } });
    };
    const device = deviceCommit({
      journal: [1, 0].map((more, n) => journalEntry(n + 1, { at: at(days.journal, more) })),
    });
    const [older, limit] = [aged(days.commands, 1), aged(days.commands, 0)];
    const [endedAnswer, endingAnswer] = [NOW - 1, NOW].map((expiresAt) => idempotencyRow({ expiresAt }));
    const { actors, idempotency, retention } = backend().store;
    await commitAll(device, older, limit);
    for (const row of [endedAnswer, endingAnswer]) await idempotency.put(row as IdempotencyRow);
    await retention.prune(NOW, days, 100);
    expect((await actors.journal(device.ref, 9)).map(({ version }) => version)).toEqual([2]);
    expect(await left('command', [older.ref.id, limit.ref.id])).toEqual(new Set([limit.ref.id]));
    expect(await idempotency.find(endedAnswer as IdempotencyRow)).toBeNull();
    expect(await idempotency.find(endingAnswer as IdempotencyRow)).toEqual(endingAnswer);
  });

  it('deletes expired stored responses, and revoked tokens a day after that', async () => {
    const { idempotency, identity } = backend().store;
    const gone = idempotencyRow({ expiresAt: NOW - 1 });
    const kept = idempotencyRow({ expiresAt: NOW + DAY });
    await idempotency.put(gone);
    await idempotency.put(kept);
    const [spent, expired, live] = [newId(), newId(), newId()];
    await identity.revokeToken(spent, NOW - DAY - 1);
    await identity.revokeToken(expired, NOW - DAY);
    await identity.revokeToken(live, NOW + DAY);
    await prune();
    expect(await idempotency.find(gone)).toBeNull();
    expect(await idempotency.find(kept)).toEqual(kept);
    const tokens = (await identity.revokedTokens(0)).map((token) => token.jti);
    expect(tokens).toEqual(expect.arrayContaining([expired, live]));
    expect(tokens).not.toContain(spent);
  });

  it('deletes verification codes of CAs that have expired', async () => {
    const { deviceCas } = backend().store;
    const [tenantId, createdBy] = [newId(), newId()];
    for (const [codeHash, expiresAt] of [
      ['ended', NOW - 1],
      ['open', NOW],
    ] as const)
      await deviceCas.beginVerification({ tenantId, codeHash, createdBy, expiresAt }, 9, NOW - DAY);
    await prune();
    const outcomes = [];
    for (const codeHash of ['ended', 'open'])
      outcomes.push(await deviceCas.renew({ ...caOf(), tenantId }, { codeHash, now: 0 }));
    expect(outcomes).toEqual(['no_code', 'unknown']);
  });

  it('deletes bindings and revocations of CAs that were deleted before, and not registered again', async () => {
    const { deviceCas } = backend().store;
    const registered = async (ca: DeviceCa) => {
      const code = { tenantId: ca.tenantId, codeHash: ca.id, createdBy: ca.createdBy, expiresAt: 20 };
      await deviceCas.beginVerification(code, 9, 10);
      expect(await deviceCas.insert(ca, { codeHash: ca.id, now: 10, mostOfSubject: 9 })).toBe('inserted');
    };
    const made = async (deletedAt: number | null): Promise<DeviceCa> => {
      const ca = caOf();
      const { id: caId, tenantId } = ca;
      const deviceId = newId();
      await registered(ca);
      for (const commonName of ['a', 'b', 'c', 'd'])
        await deviceCas.bind({ caId, commonName, tenantId, deviceId, boundBy: null, boundAt: 1 }, null);
      await deviceCas.unbind({ caId, commonName: 'd', tenantId, deviceId, unboundBy: newId(), unboundAt: 2 }, 0);
      for (const serialNumber of ['01', '02', '03'])
        await deviceCas.revoke({ tenantId, caId, serialNumber, revokedAt: 1, revokedBy: newId(), reason: null }, 9);
      if (deletedAt !== null) await deviceCas.delete(tenantId, caId, deletedAt);
      return ca;
    };
    const limit = NOW - days.journal * DAY;
    const [gone, young, again, live] = [
      await made(limit - 1),
      await made(limit),
      await made(limit - 1),
      await made(null),
    ];
    await registered(again);
    const keptOf = async ({ id }: DeviceCa) => [
      ...[await deviceCas.subject(id, 'a'), await deviceCas.subject(id, 'c'), await deviceCas.certificate(id, '03')],
      (await deviceCas.isUnbound(id, 'd')) || null,
    ];
    await prune();
    expect(await keptOf(gone)).toEqual([null, null, null, null]);
    for (const kept of [young, again, live]) expect(await keptOf(kept)).not.toContain(null);
    expect(await prune()).toBe(0);
  });
});

it('a table whose rows cannot be deleted does not keep those of others, and blocks of the audit are deleted last', async () => {
  const names: string[] = [];
  const database = {
    embedded: false,
    async write({ name }: Statement) {
      names.push(name ?? '');
      if (name === 'prune_journal') throw new Error('statement timeout');
      return [];
    },
  };
  const pruned = retentionStore(database as unknown as Database).prune(NOW, days, 100);
  await expect(pruned).rejects.toThrow('statement timeout');
  expect(names).toEqual(expect.arrayContaining(['prune_audit', 'prune_idempotency', 'prune_keys']));
  expect(names.at(-1)).toBe('prune_audit_blocks');
});
