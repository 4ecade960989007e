import { DatabaseError } from 'pg';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../../../src/store/contract.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { faultOf, isConnectionLost, lacksResource } from '../../../src/store/postgres/faults.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { deviceCommit, journalEntry, nextCommit } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { freshDatabase } from '../../support/store.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const serverUrl = inject('postgresUrl');

function serverError(code: string, severity = 'ERROR'): DatabaseError {
  const error = new DatabaseError('the message', 0, 'error');
  error.code = code;
  error.severity = severity;
  error.detail = 'Key (secret)=(value) exists.';
  return error;
}

describe('an error of the server', () => {
  it.each(['22P05', '22P02', '22003', '23505', '23502', '21000', '54000'])(
    '%s means that the data is refused',
    (code) => {
      for (const writing of [true, false]) {
        const fault = faultOf(serverError(code), writing);
        expect(fault).toBeInstanceOf(DataRefused);
        expect(fault).toMatchObject({ sqlState: code, message: 'the message' });
        expect(isConnectionLost(serverError(code))).toBe(false);
      }
    },
  );

  it.each(['53100', '53200', '53300', '57014', '58030', '40P01', '40001', '55P03', '25006', 'XX000'])(
    '%s means that the statement can be repeated',
    (code) => {
      expect(faultOf(serverError(code), true)).toBeInstanceOf(StoreUnavailable);
    },
  );

  it.each([
    ['57P01', 'FATAL'],
    ['57P02', 'FATAL'],
    ['57P05', 'SCHWERWIEGEND'],
    ['08006', 'ERROR'],
    ['53100', 'PANIC'],
  ])('%s (%s) makes the outcome of a write unknown, and a read repeatable', (code, severity) => {
    expect(faultOf(serverError(code, severity), true)).toBeInstanceOf(CommitUnknown);
    expect(faultOf(serverError(code, severity), false)).toBeInstanceOf(StoreUnavailable);
    expect(isConnectionLost(serverError(code, severity))).toBe(true);
  });

  it.each([
    ['53100', true],
    ['53200', true],
    ['58030', true],
    ['40001', false],
    ['22003', false],
  ])('%s means that a resource is missing: %s', (code, expected) => {
    expect(lacksResource(serverError(code))).toBe(expected);
  });

  it('that only a bug can cause is passed on unchanged', () => {
    const error = serverError('42P01');
    expect(faultOf(error, true)).toBe(error);
  });
});

describe('a broken connection', () => {
  it('makes the outcome of a write unknown, and a read repeatable', () => {
    const error = new Error('Connection terminated unexpectedly');
    expect(faultOf(error, true)).toBeInstanceOf(CommitUnknown);
    expect(faultOf(error, false)).toBeInstanceOf(StoreUnavailable);
    expect(isConnectionLost(error)).toBe(true);
  });
});

describe.runIf(serverUrl)('a PostgreSQL server', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  async function opened(url?: string) {
    const fresh = await freshDatabase(serverUrl ?? '');
    const database = connectPostgres(url ?? fresh.url);
    closing.push(fresh.drop, () => database.close());
    return { database, store: createStore(database), url: fresh.url };
  }

  /** A store whose connections pass a proxy; `url` is the database's own. */
  async function openedBehindProxy() {
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    const { url, drop } = await freshDatabase(serverUrl ?? '');
    const database = connectPostgres(proxy.proxiedUrl(url));
    closing.push(drop, () => database.close());
    return { proxy, store: createStore(database), url };
  }

  /** Locks the row of a device, so that its next commit waits; `pid` is then the waiting backend. */
  async function holding(url: string, id: string) {
    const holder = connectPostgres(url);
    let release = () => {};
    const latch = new Promise<void>((resolve) => {
      release = resolve;
    });
    let held = false;
    const done = holder.transaction(async (query) => {
      await query('select from devices where id = $1 for update', [id]);
      held = true;
      await latch;
    });
    await eventually(() => held);
    closing.push(async () => {
      release();
      await done;
      await holder.close();
    });
    return { release, pid: () => eventually(() => waiting(holder)) };
  }

  const waiting = async (database: Database): Promise<number | undefined> => {
    const text = `select pid from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`;
    return (await database.read<{ pid: number }>({ text }))[0]?.pid;
  };

  it('is sent fewer prepared statements from time to time, on another connection', slow, async () => {
    const fresh = await freshDatabase(serverUrl ?? '');
    const database = connectPostgres(fresh.url, { lifetimeS: 1 });
    closing.push(fresh.drop, () => database.close());
    const statement = {
      name: 'who',
      text: 'select pg_backend_pid() as pid, (select count(*) from pg_prepared_statements) as n',
    };
    const read = async () =>
      (await database.read<{ pid: number; n: number }>(statement))[0] as { pid: number; n: number };
    const first = await read();
    expect(first.n).toBe(1);
    const next = await eventually(async () => {
      const now = await read();
      return now.pid === first.pid ? null : now;
    });
    expect(next.n).toBe(1);
  });

  it('that ends a session during a commit leaves its outcome unknown; the next commit succeeds', async () => {
    const { store, database, url } = await opened();
    const commit = deviceCommit();
    await store.actors.commit([commit]);
    const lock = await holding(url, commit.ref.id);
    const changed = nextCommit(commit, { journal: [journalEntry(2)] });
    const pending = store.actors.commit([changed]);
    pending.catch(() => {});
    const pid = await lock.pid();
    await database.read({ text: 'select pg_terminate_backend($1)', values: [pid] });
    await expect(pending).rejects.toBeInstanceOf(CommitUnknown);
    lock.release();
    expect((await store.actors.load('device', [commit.ref.id]))[0]?.version).toBe(1);
    expect(await store.actors.commit([changed])).toEqual({ lost: [] });
    expect(await store.actors.journal(commit.ref, 9)).toHaveLength(1);
  });

  it('that cancels a commit has rolled it back', async () => {
    const { store, database, url } = await opened();
    const commit = deviceCommit();
    await store.actors.commit([commit]);
    const lock = await holding(url, commit.ref.id);
    const pending = store.actors.commit([nextCommit(commit)]);
    pending.catch(() => {});
    await database.read({ text: 'select pg_cancel_backend($1)', values: [await lock.pid()] });
    await expect(pending).rejects.toBeInstanceOf(StoreUnavailable);
  });

  it('with a deadlock of two commits fails one of them, which can be repeated', async () => {
    const { store } = await opened();
    const commits = Array.from({ length: 2 }, () => deviceCommit());
    await store.actors.commit(commits);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) => {
        const actors = commits.map((commit) => nextCommit(commit));
        return store.actors.commit(n % 2 === 0 ? actors : actors.reverse());
      }),
    );
    const won = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.lost.length < 2);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(StoreUnavailable);
    }
    expect(won.length).toBeGreaterThan(0);
    const loaded = await store.actors.load(
      'device',
      commits.map((commit) => commit.ref.id),
    );
    expect(loaded.map((actor) => actor.version)).toEqual([2, 2]);
  });

  it('is used again after a network failure without a restart', slow, async () => {
    const { proxy, store } = await openedBehindProxy();
    const commit = deviceCommit();
    await store.actors.commit([commit]);
    proxy.cut();
    await expect(store.actors.load('device', [commit.ref.id])).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(store.actors.commit([nextCommit(commit)])).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(store.ping(1_000)).rejects.toBeInstanceOf(StoreUnavailable);
    proxy.restore();
    expect(await store.actors.commit([nextCommit(commit)])).toEqual({ lost: [] });
  });

  it('ends a session that was lost during a commit before the next statement', async () => {
    const { proxy, store, url } = await openedBehindProxy();
    const commit = deviceCommit();
    await store.actors.commit([commit]);
    const lock = await holding(url, commit.ref.id);
    const pending = store.actors.commit([nextCommit(commit)]);
    pending.catch(() => {});
    await lock.pid();
    proxy.cut();
    await expect(pending).rejects.toBeInstanceOf(CommitUnknown);
    proxy.restore();
    expect((await store.actors.load('device', [commit.ref.id]))[0]?.version).toBe(1);
    lock.release();
    expect(await store.actors.commit([nextCommit(commit)])).toEqual({ lost: [] });
  });

  it('that does not respond fails a ping in time', async () => {
    const { proxy, store } = await openedBehindProxy();
    await store.ping(5_000);
    proxy.silence();
    await expect(store.ping(50)).rejects.toThrow(/no answer from the database within 50 ms/);
    proxy.cut();
  });

  it('that does not exist is unavailable', slow, async () => {
    const database = connectPostgres('postgres://postgres@127.0.0.1:1/none');
    closing.push(() => database.close());
    await expect(database.read({ text: 'select 1' })).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(database.write({ text: 'select 1' })).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(database.transaction(async () => 1)).rejects.toBeInstanceOf(StoreUnavailable);
  });
});
