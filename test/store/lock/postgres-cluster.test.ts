import { describe, expect, it, vi } from 'vitest';
import { shardOf } from '../../../src/domain/shards.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { PostgresCluster } from '../../../src/store/lock/postgres-cluster.ts';
import { sharedOwnership } from '../../../src/store/lock/shared-ownership.ts';
import { newId } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';
import { recordingLog } from '../../support/lock-parts.ts';
import { slow } from '../../support/slow.ts';
import { sql } from '../../support/write-oracle.ts';
import {
  allShards,
  closing,
  database,
  deviceIn,
  endLockSession,
  lockOf,
  never,
  nodeOf,
  ownersOf,
  serverUrl,
  type TestNode,
  withNodes,
} from './cluster-nodes.ts';

withNodes();

describe.runIf(serverUrl)('nodes that share a database', () => {
  it('are all active, with numbers that increase, also on a database without migrations', async () => {
    const url = await database(true);
    const first = await nodeOf(url);
    const second = await nodeOf(url);
    const { nodes } = await first.cluster.view();
    expect(nodes.map(({ id }) => id)).toEqual([first.cluster.self, second.cluster.self]);
    expect(nodes[0]).toMatchObject({ alive: true, state: 'active', link: '127.0.0.1:7000', address: 'test:1' });
    expect(nodes[1]?.number).toBeGreaterThan(nodes[0]?.number ?? Number.NaN);
    expect(await second.cluster.view()).toMatchObject({ nodes });
  });

  it('are informed when another one registers, before it is active', async () => {
    const url = await database();
    const first = await nodeOf(url);
    await first.cluster.view();
    const changed = Promise.withResolvers<void>();
    first.cluster.onChange(changed.resolve);
    const joining = lockOf(url, sharedOwnership);
    await joining.acquire(never);
    await changed.promise;
    const { nodes } = await first.cluster.view();
    expect(nodes.map(({ id, state }) => [id, state])).toEqual([
      [first.cluster.self, 'active'],
      [joining.node, 'joining'],
    ]);
  });

  it('list the shards of a node that has left with their last owner', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim([1, 2]);
    await second.cluster.claim([3]);
    await first.lock.release();
    const { nodes, owners } = await second.cluster.view();
    expect(nodes.map(({ id }) => id)).toEqual([second.cluster.self]);
    expect(owners.slice(0, 4)).toEqual([null, first.cluster.self, first.cluster.self, second.cluster.self]);
  });

  it('report once an attempt that they may not terminate the sessions of a node that has ended', slow, async () => {
    const url = await database();
    const suffix = newId().slice(-8);
    const as = (role: string): string => url.replace('postgres@', `${role}@`);
    for (const role of [`old_${suffix}`, `new_${suffix}`]) {
      await sql(
        url,
        `create role ${role} login; grant all on all tables in schema public to ${role};
        grant all on all sequences in schema public to ${role}`,
      );
      closing.unshift(() => sql(url.replace(/[^/]+$/, 'postgres'), `drop role ${role}`));
    }
    const [first, second] = [await nodeOf(as(`old_${suffix}`)), await nodeOf(as(`new_${suffix}`))];
    await first.pool.read({ text: 'select 1 as one' });
    await endLockSession(url, first);
    const { log, lines } = recordingLog();
    const cluster = new PostgresCluster(second.lock, log);
    await expect(cluster.fence([first.cluster.self])).rejects.toThrow(StoreUnavailable);
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ['error', expect.stringContaining('not permitted to terminate')],
    ]);
    await sql(url, `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'old_${suffix}'`);
    await cluster.claim([1]);
    expect(await ownersOf(second)).toContain(second.cluster.self);
  });

  it('exclude a node that needs the database to itself, and are excluded by it', slow, async () => {
    const url = await database();
    const shared = await nodeOf(url);
    const exclusive = lockOf(url);
    let active = false;
    const waiting = exclusive.acquire(never).then(() => {
      active = true;
    });
    await shared.cluster.claim([1]);
    expect(active).toBe(false);
    await shared.lock.release();
    await waiting;
    const blocked = new AbortController();
    const later = lockOf(url, sharedOwnership).acquire(blocked.signal);
    blocked.abort();
    await expect(later).rejects.toThrow('aborted');
  });

  it('own a shard one at a time', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    expect(await ownersOf(first)).toEqual(new Set([null]));
    await Promise.all([first.cluster.claim(allShards), second.cluster.claim(allShards)]);
    const { owners } = await first.cluster.view();
    expect(new Set(owners).size).toBe(1);
    expect([first.cluster.self, second.cluster.self]).toContain(owners[0]);
  });

  it('commit actors of the shards that they own, and of no others', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim([1, 2]);
    await second.cluster.claim([3]);
    const own = [deviceIn(1), deviceIn(2)];
    await expect(first.store.actors.commit(own)).resolves.toEqual({ lost: [] });
    await expect(second.store.actors.commit([deviceIn(3)])).resolves.toEqual({ lost: [] });
    await expect(first.store.actors.commit([deviceIn(1), deviceIn(3)])).rejects.toBeInstanceOf(StoreUnavailable);
    expect(first.lost).toHaveBeenCalledTimes(1);
    expect(second.lost).not.toHaveBeenCalled();
    expect(await sql(url, 'select id from devices')).toHaveLength(3);
  });

  it('hand over a shard: the new owner commits, and the old one no longer', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim([1, 2]);
    const changed = vi.fn();
    second.cluster.onChange(changed);
    await first.cluster.handOver([2], second.cluster.self);
    await eventually(() => changed.mock.calls.length > 0);
    expect((await second.cluster.view()).owners[2]).toBe(second.cluster.self);
    await second.store.actors.commit([deviceIn(2)]);
    await first.store.actors.commit([deviceIn(1)]);
    await expect(first.store.actors.commit([deviceIn(2)])).rejects.toBeInstanceOf(StoreUnavailable);
  });

  it('hand over only what they own', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim([1]);
    await second.cluster.handOver([1], second.cluster.self);
    expect((await first.cluster.view()).owners[1]).toBe(first.cluster.self);
  });

  it('see at once that a node has left, and claim what it owned', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim([1]);
    const changed = vi.fn();
    second.cluster.onChange(changed);
    await first.lock.release();
    await eventually(() => changed.mock.calls.length > 0);
    expect((await second.cluster.view()).nodes.map(({ id }) => id)).toEqual([second.cluster.self]);
    await second.cluster.claim([1]);
    expect((await second.cluster.view()).owners[1]).toBe(second.cluster.self);
    expect(first.lost).not.toHaveBeenCalled();
  });

  it('have one leader, and another one after it has ended', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    expect((await first.cluster.view()).leader).toBe(true);
    expect((await second.cluster.view()).leader).toBe(false);
    expect((await first.cluster.view()).leader).toBe(true);
    await first.lock.release();
    expect((await second.cluster.view()).leader).toBe(true);
  });

  it('do not fence a node that is alive', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await second.cluster.fence([first.cluster.self]);
    await first.cluster.claim([1]);
    await first.store.actors.commit([deviceIn(1)]);
    expect((await second.cluster.view()).nodes).toHaveLength(2);
  });
});

describe.runIf(serverUrl)('an operator', () => {
  const figures = {
    load: { liveActors: 1, deviceSessions: 2, cpuShare: 0.5, heapBytes: 3, rssBytes: 4, eventLoopDelayMs: 5 },
    ...{ opened: 6, handedOver: 7 },
  };
  const statesOf = async ({ cluster }: TestNode) => (await cluster.view()).nodes.map(({ state }) => state);

  it('sees the figures that each live node has published, also on a database without migrations', async () => {
    const url = await database(true);
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await second.cluster.claim([5]);
    await second.cluster.publish(figures, 60_000);
    const { nodes, owners } = await first.cluster.report();
    expect(nodes).toMatchObject([
      { id: first.cluster.self, state: 'active', figures: null, leaseAgeMs: null },
      { id: second.cluster.self, state: 'active', figures, leaseAgeMs: expect.any(Number) },
    ]);
    expect(nodes[1]?.leaseAgeMs).toBeGreaterThanOrEqual(60_000);
    expect(owners[5]).toBe(second.cluster.self);
    expect(owners[6]).toBeNull();
    await endLockSession(url, second);
    expect((await first.cluster.report()).nodes.map(({ id }) => id)).toEqual([first.cluster.self]);
  });

  it('drains and resumes any node through any other, and the node is informed', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await second.cluster.view();
    const changed = vi.fn();
    second.cluster.onChange(changed);
    expect(await first.cluster.drain(second.cluster.self)).toBe('done');
    await eventually(() => changed.mock.calls.length > 0);
    expect(await statesOf(second)).toEqual(['active', 'draining']);
    expect(await second.cluster.drain(second.cluster.self)).toBe('done');
    expect(await second.cluster.resume(second.cluster.self)).toBe('done');
    expect(await first.cluster.resume(second.cluster.self)).toBe('done');
    expect(await statesOf(first)).toEqual(['active', 'active']);
  });

  it('cannot drain the last active node, even if two are requested at once', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    const results = await Promise.all([
      first.cluster.drain(second.cluster.self),
      second.cluster.drain(first.cluster.self),
    ]);
    expect(results.sort()).toEqual(['done', 'last active']);
    expect((await statesOf(first)).sort()).toEqual(['active', 'draining']);
  });

  it('cannot drain or resume a node that is joining, stopping or gone', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    for (const state of ['joining', 'stopping'] as const) {
      await second.cluster.announce(state, '127.0.0.1:7000');
      expect(await first.cluster.drain(second.cluster.self)).toBe('wrong state');
      expect(await first.cluster.resume(second.cluster.self)).toBe('wrong state');
    }
    await endLockSession(url, second);
    expect(await first.cluster.drain(second.cluster.self)).toBe('not found');
    expect(await first.cluster.resume(newId())).toBe('not found');
  });
});

describe.runIf(serverUrl)('a node whose lock is gone', () => {
  it('is seen at once, and its shards are free once it is fenced', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim(allShards);
    await first.store.actors.commit([deviceIn(7)]);
    await endLockSession(url, first);
    expect((await second.cluster.view()).nodes[0]).toMatchObject({ id: first.cluster.self, alive: false });
    await second.cluster.claim(allShards);
    expect(await ownersOf(second)).toEqual(new Set([first.cluster.self]));
    await second.cluster.fence([first.cluster.self]);
    expect((await second.cluster.view()).nodes.map(({ id }) => id)).toEqual([second.cluster.self]);
    await second.cluster.claim(allShards);
    expect(await ownersOf(second)).toEqual(new Set([second.cluster.self]));
    await expect(first.pool.read({ text: 'select 1 as one', noRetry: true })).rejects.toBeInstanceOf(StoreUnavailable);
  });

  it('loses its database sessions, and the other nodes keep theirs', async () => {
    const url = await database();
    const [first, second, third] = [await nodeOf(url), await nodeOf(url), await nodeOf(url)];
    const sessionOf = async ({ pool }: TestNode): Promise<number | undefined> =>
      (await pool.read<{ pid: number }>({ text: 'select pg_backend_pid() as pid' }))[0]?.pid;
    const pids = [await sessionOf(first), await sessionOf(second), await sessionOf(third)];
    await endLockSession(url, first);
    await second.cluster.fence([first.cluster.self]);
    const alive = await sql<{ pid: number }>(url, `select pid from pg_stat_activity where pid in (${pids.join(',')})`);
    expect(alive.map(({ pid }) => pid).sort()).toEqual(pids.slice(1).sort());
  });

  it('has no statement left when its shards are claimed, also if another node has raised its epoch', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim(allShards);
    const running = first.pool.read({ text: 'select pg_sleep(60), 77 as tag', noRetry: true }).catch(() => null);
    const statements = () =>
      sql(
        url,
        `select pid from pg_stat_activity where query like '%77 as tag%' and state = 'active' and pid <> pg_backend_pid()`,
      );
    await eventually(async () => (await statements()).length === 1);
    await endLockSession(url, first);
    // A third node has committed the epoch, and has not ended the sessions yet.
    await sql(url, `update nodes set epoch = epoch + 1 where id = '${first.cluster.self}'`);
    await second.cluster.claim(allShards);
    expect(await ownersOf(second)).toEqual(new Set([second.cluster.self]));
    expect(await statements()).toEqual([]);
    await running;
  });

  it('can be fenced by two nodes at once', async () => {
    const url = await database();
    const [first, second, third] = [await nodeOf(url), await nodeOf(url), await nodeOf(url)];
    await first.cluster.claim(allShards);
    await endLockSession(url, first);
    await Promise.all([second, third].map(({ cluster }) => cluster.fence([first.cluster.self])));
    await Promise.all([second.cluster.claim(allShards.slice(0, 128)), third.cluster.claim(allShards.slice(128))]);
    const { owners } = await second.cluster.view();
    expect(new Set(owners.slice(0, 128))).toEqual(new Set([second.cluster.self]));
    expect(new Set(owners.slice(128))).toEqual(new Set([third.cluster.self]));
    expect(await sql(url, `select epoch from nodes where id = '${first.cluster.self}'`)).toEqual([{ epoch: '2' }]);
  });

  it('cannot claim shards', async () => {
    const url = await database();
    const [first, second] = [await nodeOf(url), await nodeOf(url)];
    await sql(url, `update nodes set epoch = epoch + 1 where id = '${first.cluster.self}'`);
    await first.cluster.claim([1]).catch(() => {});
    expect((await second.cluster.view()).owners[1]).toBe(null);
  });

  it('cannot use its lock session', async () => {
    const url = await database();
    const first = await nodeOf(url);
    await endLockSession(url, first);
    await eventually(() => first.lost.mock.calls.length === 1);
    await expect(first.cluster.view()).rejects.toBeInstanceOf(StoreUnavailable);
  });
});

describe('shardOf in SQL', () => {
  it.runIf(serverUrl)('gives the same shard as in memory', async () => {
    const url = await database();
    const node = await nodeOf(url);
    await node.cluster.claim(allShards);
    const device = { ...deviceIn(0xc3), timers: { set: [], clear: [] } };
    const timer = { ref: device.ref, id: 'later', event: 'later', dueAt: 5 };
    await node.store.actors.commit([{ ...device, timers: { set: [timer], clear: [] } }]);
    const shard = shardOf(device.tenantId);
    expect(shard).toBe(0xc3);
    expect(await node.store.actors.dueTimers(9, 10, [shard])).toEqual([timer]);
    expect(await node.store.actors.dueTimers(9, 10, [shard - 1, shard + 1])).toEqual([]);
    expect(await node.store.actors.dueTimers(9, 10, null)).toEqual([timer]);
  });
});
