import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterEach, describe, expect, inject, it, vi } from 'vitest';
import { DATA_LEVEL } from '../../../src/domain/data-level.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { AdvisoryLock, type AdvisoryLockParts } from '../../../src/store/lock/advisory-lock.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import { migrate } from '../../../src/store/postgres/migrate.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { deviceCommit } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';
import { lockParts, recordingLog } from '../../support/lock-parts.ts';
import { slow } from '../../support/slow.ts';
import { freshDatabase } from '../../support/store.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const serverUrl = inject('postgresUrl');
const never = new AbortController().signal;
const closing: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function database(empty = false): Promise<string> {
  const { url, drop } = await freshDatabase(serverUrl ?? '', empty);
  closing.push(drop);
  return url;
}

function lockOf(url: string, parts: Partial<AdvisoryLockParts> = {}): AdvisoryLock {
  const lock = new AdvisoryLock(url, { ...lockParts, ...parts });
  closing.push(() => lock.release());
  return lock;
}

async function acquired(url: string, parts: Partial<AdvisoryLockParts> = {}): Promise<AdvisoryLock> {
  const lock = lockOf(url, parts);
  await lock.acquire(never);
  return lock;
}

/** The lock's connection ends on the server without a notification to the process. */
async function endLockSession(url: string): Promise<void> {
  await sql(
    url,
    `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
    and database = (select oid from pg_database where datname = current_database())`,
  );
}

async function sql<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

const shardOf = async (url: string) =>
  (await sql<{ owner: string; epoch: string }>(url, 'select owner, epoch from shards where shard = 0'))[0];

describe.runIf(serverUrl)('a takeover', () => {
  it('raises the epoch, also on a database without migrations', slow, async () => {
    const url = await database(true);
    const first = await acquired(url);
    expect(first.lease).toMatchObject({ epoch: 1 });
    expect(first.lease.valid()).toBe(true);
    const migrated = connectPostgres(url, { fence: first.fence() });
    closing.push(() => migrated.close());
    await migrate(migrated);
    await first.release();
    expect(first.lease.valid()).toBe(false);
    const second = await acquired(url);
    expect(second.lease.epoch).toBe(2);
    expect(await shardOf(url)).toEqual({ owner: second.fence().node, epoch: '2' });
  });

  it('ends the recorded sessions of the previous owner, with any name', async () => {
    const url = await database();
    const first = await acquired(url);
    const before = connectPostgres(url, { fence: first.fence() });
    closing.push(() => before.close());
    const [own] = await before.read<{ pid: number }>({
      text: `select pg_backend_pid() as pid, set_config('application_name', 'another', false)`,
    });
    await endLockSession(url);
    await acquired(url);
    expect(await sql(url, `select pid from pg_stat_activity where pid = ${own?.pid}`)).toEqual([]);
    expect(await sql(url, 'select * from node_sessions')).toEqual([]);
  });

  it('ends the sessions of an owner whose successor died before it ended them', async () => {
    const url = await database();
    const first = await acquired(url);
    const before = connectPostgres(url, { fence: first.fence() });
    closing.push(() => before.close());
    const [own] = await before.read<{ pid: number }>({
      text: `select pg_backend_pid() as pid, set_config('application_name', 'another', false)`,
    });
    await endLockSession(url);
    await sql(
      url,
      `update nodes set epoch = epoch + 1;
      insert into nodes (id, epoch, address, build, started_at, data_level)
        values ('${randomUUID()}', 1, 'dead', 'test', now(), ${DATA_LEVEL});
      update shards set epoch = epoch + 1, owner = (select id from nodes where address = 'dead')`,
    );
    const third = await acquired(url);
    expect(third.lease.epoch).toBe(3);
    expect(await sql(url, `select pid from pg_stat_activity where pid = ${own?.pid}`)).toEqual([]);
  });

  it('waits with a log line while it may not terminate a session of the previous owner', async () => {
    const url = await database();
    const suffix = randomUUID().slice(0, 8);
    const roles = [`old_${suffix}`, `new_${suffix}`] as const;
    for (const role of roles) {
      await sql(url, `create role ${role} login; grant all on all tables in schema public to ${role}`);
      closing.unshift(() => sql(url.replace(/[^/]+$/, 'postgres'), `drop role ${role}`));
    }
    const as = (role: string): string => url.replace('postgres@', `${role}@`);
    const first = await acquired(as(roles[0]));
    const before = connectPostgres(as(roles[0]), { fence: first.fence() });
    await before.read({ text: 'select 1 as one' });
    await endLockSession(url);
    const { log, lines } = recordingLog();
    const second = lockOf(as(roles[1]), { log });
    let active = false;
    const waiting = second.acquire(never).then(() => {
      active = true;
    });
    await eventually(() =>
      lines.some(({ level, message }) => level === 'error' && message.includes('pg_signal_backend')),
    );
    expect(active).toBe(false);
    expect(second.lease.valid()).toBe(false);
    await before.close();
    await waiting;
    expect(second.lease.epoch).toBe(2);
  });
});

describe.runIf(serverUrl)('a process that another one took over from', () => {
  /** The previous owner, whose pool has no connection yet. */
  async function stale() {
    const url = await database();
    const lines = recordingLog();
    const first = await acquired(url, { log: lines.log });
    const lost = vi.fn();
    first.onLost(lost);
    const pool = connectPostgres(url, { fence: first.fence() });
    closing.push(() => pool.close());
    return { url, first, lost, pool, ...lines };
  }
  /** The first statement of a takeover, before it terminates any session. */
  const raise = (url: string): Promise<unknown> =>
    sql(
      url,
      `update nodes set epoch = epoch + 1;
      update shards set data_level = 1; -- that of a node without a row
      update shards set epoch = epoch + 1, owner = '${randomUUID()}'`,
    );

  it('cannot use a new connection, and its lease is lost', async () => {
    const { url, first, lost, pool, lines } = await stale();
    await raise(url);
    await expect(pool.read({ text: 'select 1 as one', noRetry: true })).rejects.toBeInstanceOf(StoreUnavailable);
    expect(lost).toHaveBeenCalledTimes(1);
    expect(first.lease.valid()).toBe(false);
    expect(lines.map(({ fields }) => fields.reason)).toContain('the epoch was raised');
  });

  it('cannot commit on an existing connection, and its lease is lost', async () => {
    const { url, first, lost, pool, lines } = await stale();
    const store = createStore(pool, undefined, first.fence());
    await pool.read({ text: 'select 1 as one' });
    await raise(url);
    await expect(store.actors.commit([deviceCommit({})])).rejects.toBeInstanceOf(StoreUnavailable);
    expect(await sql(url, 'select id from devices')).toEqual([]);
    expect(lost).toHaveBeenCalledTimes(1);
    expect(lines.map(({ fields }) => fields.reason)).toContain('another node owns the shard');
  });

  it('cannot use a server that does not hold its lock, as after a failover', async () => {
    const { url, first, lost, lines } = await stale();
    const elsewhere = connectPostgres(url, { fence: { ...first.fence(), lockPid: 1 } });
    closing.push(() => elsewhere.close());
    await expect(elsewhere.read({ text: 'select 1 as one', noRetry: true })).rejects.toBeInstanceOf(StoreUnavailable);
    expect(lost).toHaveBeenCalledTimes(1);
    expect(lines.map(({ fields }) => fields.reason)).toContain(
      'this server does not hold the active lock of this node',
    );
  });

  it('also learns it from the next renewal', slow, async () => {
    const { url, lost, first } = await stale();
    await raise(url);
    await eventually(() => lost.mock.calls.length === 1);
    expect(first.lease.valid()).toBe(false);
  });
});

describe.runIf(serverUrl)('a renewal', () => {
  it('returns the clock of the database, first before the lock counts as acquired', async () => {
    const url = await database();
    const lock = lockOf(url, { timing: { renew: 20 } });
    const samples: { sentAt: number; receivedAt: number; databaseNow: number }[] = [];
    lock.onRenewed((sample) => samples.push(sample));
    await lock.acquire(never);
    expect(samples).toHaveLength(1);
    await eventually(() => samples.length >= 3);
    for (const { sentAt, receivedAt, databaseNow } of samples) {
      expect(receivedAt).toBeGreaterThanOrEqual(sentAt);
      expect(Math.abs(databaseNow - Date.now())).toBeLessThan(60_000);
    }
  });

  it('without a response ends the lease, counted from when the last answered one was sent', async () => {
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    const time = { now: 0 };
    // The time limits of statements and connections must not end the lease earlier.
    vi.useFakeTimers({
      shouldAdvanceTime: true,
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    });
    closing.push(() => vi.useRealTimers());
    const timing = { renew: 20, lease: 30_000 };
    const lock = lockOf(proxy.proxiedUrl(await database()), { monotonic: () => time.now, timing });
    const lost = vi.fn();
    const samples: number[] = [];
    lock.onLost(lost);
    lock.onRenewed(({ sentAt }) => samples.push(sentAt));
    await lock.acquire(never);
    // The server does not respond for 20 seconds, and continues.
    proxy.hold();
    await eventually(() => proxy.blocked() > 0);
    time.now = 20_000;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(lock.lease.valid()).toBe(true);
    expect(lost).not.toHaveBeenCalled();
    proxy.restore();
    await eventually(() => samples.at(-1) === 20_000);
    time.now = 49_999;
    expect(lock.lease.valid()).toBe(true);
    proxy.hold();
    time.now = 70_000;
    expect(lock.lease.valid()).toBe(false);
    await eventually(() => lost.mock.calls.length === 1);
  });

  it('that is answered late extends the lease from when it was sent', async () => {
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    const time = { now: 0 };
    const lock = lockOf(proxy.proxiedUrl(await database()), { monotonic: () => time.now, timing: { renew: 20 } });
    const lost = vi.fn();
    lock.onLost(lost);
    await lock.acquire(never);
    proxy.hold();
    await eventually(() => proxy.blocked() > 0);
    time.now = 9_999;
    const valid: boolean[] = [];
    lock.onRenewed(() => {
      time.now = 10_000;
      valid.push(lock.lease.valid());
    });
    proxy.restore();
    await eventually(() => valid.length > 0);
    expect(valid).toEqual([false]);
    await eventually(() => lost.mock.calls.length === 1);
  });
});

describe.runIf(serverUrl)('a process that must not become active', () => {
  it('leaves the database and the active process as they are', async () => {
    const url = await database(true);
    const refused = lockOf(url, { refusal: async () => new Error('wrong keys') });
    await expect(refused.acquire(never)).rejects.toThrow('wrong keys');
    expect(await sql(url, `select to_regclass('nodes') as nodes`)).toEqual([{ nodes: null }]);
    const lock = await acquired(url);
    await expect(lockOf(url, { refusal: async () => new Error('wrong keys') }).acquire(never)).rejects.toThrow();
    expect(lock.lease.valid()).toBe(true);
  });

  it('is examined again when the database could not be read', slow, async () => {
    const url = await database();
    const { log, lines } = recordingLog();
    let attempts = 0;
    const refusal = async () => {
      attempts += 1;
      if (attempts === 1) throw new Error('no connection');
      return null;
    };
    await acquired(url, { log, refusal });
    expect(attempts).toBe(2);
    expect(lines[0]).toMatchObject({ level: 'warn', message: 'active lock: waiting; database unavailable' });
  });
});

describe.runIf(serverUrl)('the lock of a database', () => {
  it('does not depend on parameters of its URL', async () => {
    const url = await database();
    const given = `${url}?application_name=twinkeep&statement_timeout=0&query_timeout=1&options=-c%20search_path%3Dpublic%20-c%20jit%3Don`;
    const lock = await acquired(given);
    const pool = connectPostgres(given, { fence: lock.fence() });
    closing.push(() => pool.close());
    const [row] = await pool.read({
      text: `select current_setting('application_name') as name, current_setting('statement_timeout') as timeout,
        current_setting('jit') as jit, current_setting('search_path') as path`,
    });
    expect(row).toEqual({ name: 'twinkeep', timeout: '8s', jit: 'off', path: 'public' });
    const named = await sql<{ name: string }>(
      url,
      `select application_name as name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by 1`,
    );
    expect(named.map(({ name }) => name)).toEqual(['twinkeep', 'twinkeep active lock']);
  });

  it('logs while it waits: who holds the lock, and since when', async () => {
    const url = await database();
    const first = await acquired(url, { node: { address: 'first:8080', build: '1.2.3' } });
    const { log, lines } = recordingLog();
    const second = lockOf(url, { log, timing: { report: 1, poll: 5 } });
    const waiting = second.acquire(never);
    await eventually(() => lines.length >= 2);
    for (const { level, message, fields } of lines.slice(0, 2)) {
      expect([level, message]).toEqual(['info', 'active lock: waiting; another process holds it']);
      expect(fields).toMatchObject({
        waited_s: expect.any(Number),
        session: { pid: first.fence().lockPid, client: '127.0.0.1' },
        owner: { node: first.fence().node, address: 'first:8080', build: '1.2.3', epoch: 1 },
      });
    }
    await first.release();
    await waiting;
    expect(lines.at(-1)).toMatchObject({ message: 'active lock: acquired', fields: { epoch: 2 } });
  });

  it('logs while it waits for an unreachable database', async () => {
    const { log, lines } = recordingLog();
    const stop = new AbortController();
    const waiting = lockOf('postgres://postgres@127.0.0.1:1/none', { log }).acquire(stop.signal);
    await eventually(() => lines.length === 1);
    expect(lines[0]).toMatchObject({ level: 'warn', message: 'active lock: waiting; database unavailable' });
    stop.abort();
    await expect(waiting).rejects.toThrow();
  });
});
