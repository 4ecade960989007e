import { describe, expect, it } from 'vitest';
import { CommitUnknown, StoreUnavailable } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, journalEntry, newId, nextCommit } from '../actor-commits.ts';
import { MemoryDatabase } from './database.ts';
import type { StatementCall, StatementTransport } from './session.ts';
import { openMemoryStore } from './store.ts';

const home = (more = {}) => ({ id: newId(), tenantId: newId(), name: 'Home', timezone: null, createdAt: 1, ...more });

describe('a database in memory', () => {
  it('outlives the stores opened on it', async () => {
    const database = new MemoryDatabase();
    const [one, other] = [openMemoryStore(database), openMemoryStore(database)];
    const commit = deviceCommit();
    await one.actors.commit([commit]);
    await one.close();
    expect(await other.actors.load('device', [commit.ref.id])).toMatchObject([{ ref: commit.ref, version: 1 }]);
    expect(await other.actors.commit([commit])).toEqual({ lost: [commit.ref] });
  });

  it('lists the keys that changed since the last call, without those rolled back', () => {
    const database = new MemoryDatabase();
    const { flags } = database.tables;
    flags.takeChanged();
    database.transaction(() => flags.set('kept', true));
    const rolledBack = () =>
      database.transaction(() => {
        flags.set('kept', false).set('lost', true).delete('kept');
        throw new Error('refused');
      });
    expect(rolledBack).toThrow('refused');
    expect([...flags.takeChanged()]).toEqual(['kept']);
    expect(rolledBack).toThrow('refused');
    expect([...flags.takeChanged()]).toEqual([]);
    database.transaction(() => flags.delete('kept'));
    expect([...flags.takeChanged()]).toEqual(['kept']);
  });

  it('returns to a snapshot, and continues from there', async () => {
    const database = new MemoryDatabase();
    const { actors, records } = openMemoryStore(database);
    const first = deviceCommit({ journal: [journalEntry(1)] });
    await actors.commit([first]);
    const snapshot = database.snapshot();
    const second = nextCommit(first, {
      journal: [journalEntry(2)],
      outbox: [{ n: 0, output: notified(first.ref.id) }],
    });
    const one = home();
    await actors.commit([second]);
    await records.insertHome(one);
    for (let again = 0; again < 2; again++) {
      database.restore(snapshot);
      expect((await actors.journal(first.ref, 9)).map(({ version }) => version)).toEqual([1]);
      expect([await actors.pendingOutbox(9, 0), await records.home(one.tenantId, one.id)]).toEqual([[], null]);
      expect(await actors.commit([second])).toEqual({ lost: [] });
      expect(await actors.pendingOutbox(9, 0)).toHaveLength(1);
    }
  });

  it('refuses statements of an old epoch, including reads, and changes nothing', async () => {
    const database = new MemoryDatabase();
    database.epoch = 1;
    const stale = openMemoryStore(database, { epoch: 1 });
    const first = deviceCommit();
    await stale.actors.commit([first]);
    database.epoch = 2;
    const active = openMemoryStore(database, { epoch: 2 });
    const late = nextCommit(first, { journal: [journalEntry(2)] });
    await expect(stale.actors.commit([late])).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(stale.actors.load('device', [first.ref.id])).rejects.toBeInstanceOf(StoreUnavailable);
    expect((await active.actors.load('device', [first.ref.id]))[0]?.version).toBe(1);
    expect(await active.actors.commit([late])).toEqual({ lost: [] });
  });
});

const notified = (deviceId: string) => ({
  type: 'actor.tell' as const,
  to: { kind: 'device' as const, id: deviceId },
  event: { type: 'device.revoked' as const, deviceId },
});

/** A transport that holds each statement, and then its response, until the test releases them. */
function heldWire() {
  const held: { call: StatementCall; execute(): unknown; answer(): void; lose(): void }[] = [];
  const wire: StatementTransport = <T>(call: StatementCall, effect: () => T) =>
    new Promise<T>((resolve, reject) => {
      let end = () => {};
      held.push({
        call,
        execute: () => {
          const value = effect();
          end = () => resolve(value);
        },
        answer: () => end(),
        lose: () =>
          reject(call.writes ? new CommitUnknown('connection lost') : new StoreUnavailable('connection lost')),
      });
    });
  return { held, wire };
}

describe('the connection of a store in memory', () => {
  it('makes a commit visible when it takes place, not when it is sent or answered', async () => {
    const database = new MemoryDatabase();
    const { held, wire } = heldWire();
    const other = openMemoryStore(database);
    const commit = deviceCommit();
    const visible = async () => (await other.actors.load('device', [commit.ref.id])).length;
    const answered = openMemoryStore(database, { transport: wire }).actors.commit([commit]);
    expect([held.map(({ call }) => call), await visible()]).toEqual([[{ name: 'actors.commit', writes: true }], 0]);
    held[0]?.execute();
    expect(await visible()).toBe(1);
    held[0]?.answer();
    expect(await answered).toEqual({ lost: [] });
  });

  it('can lose the response of a commit that takes place later', async () => {
    const database = new MemoryDatabase();
    const { held, wire } = heldWire();
    const other = openMemoryStore(database);
    const commit = deviceCommit();
    const answered = openMemoryStore(database, { transport: wire }).actors.commit([commit]);
    held[0]?.lose();
    await expect(answered).rejects.toBeInstanceOf(CommitUnknown);
    expect(await other.actors.load('device', [commit.ref.id])).toEqual([]);
    held[0]?.execute();
    expect(await other.actors.load('device', [commit.ref.id])).toHaveLength(1);
  });

  it('delivers what was sent, although its sender changes it before it takes place', async () => {
    const database = new MemoryDatabase();
    const { held, wire } = heldWire();
    const store = openMemoryStore(database, { transport: wire });
    const commit = deviceCommit({ live: { state: { on: true } } });
    const one = home();
    const answers = [store.actors.commit([commit]), store.records.insertHome(one)];
    (commit.live.state as { on: boolean }).on = false;
    one.name = 'Changed';
    for (const { execute, answer } of held) {
      execute();
      answer();
    }
    await Promise.all(answers);
    const other = openMemoryStore(database);
    expect((await other.actors.load('device', [commit.ref.id]))[0]?.context).toEqual({ state: { on: true } });
    expect((await other.records.home(one.tenantId, one.id))?.name).toBe('Home');
  });

  it('passes refusals of the database on', async () => {
    const refused = openMemoryStore(new MemoryDatabase(), { transport: async (_, effect) => effect() });
    const row = idempotencyRow();
    await refused.idempotency.put(row);
    await expect(refused.idempotency.put({ ...row, answer: 'other' })).rejects.toMatchObject({ sqlState: '23505' });
  });
});
