import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { type ActiveLock, OwnedByAnother } from '../../../src/store/contract.ts';
import { AdvisoryLock } from '../../../src/store/lock/advisory-lock.ts';
import { openLock } from '../../../src/store/open.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import { eventually } from '../../support/clock.ts';
import { lockParts, longLivedLockParts } from '../../support/lock-parts.ts';
import { nodeEnv, nodeFlags } from '../../support/node-flags.ts';
import { freshDatabase } from '../../support/store.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';

const serverUrl = inject('postgresUrl');
const never = new AbortController().signal;
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function lockOf(where: { databaseUrl?: string; dataDir?: string }): ActiveLock {
  const lock = openLock(
    { databaseUrl: where.databaseUrl ?? null, dataDir: where.dataDir ?? '/nowhere' },
    longLivedLockParts,
  );
  closing.push(() => lock.release());
  return lock;
}

/** Another process that takes the lock and keeps it; resolves when it has the lock. */
async function holder(databaseUrl: string | null, dataDir: string): Promise<ChildProcess> {
  const script = new URL('../../support/hold-lock.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [...nodeFlags, script], {
    env: { ...nodeEnv, HOLD: JSON.stringify({ databaseUrl, dataDir }) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  closing.push(() => void child.kill('SIGKILL'));
  for await (const line of createInterface({ input: child.stdout })) if (line === 'held') return child;
  throw new Error('the other process did not get the lock');
}

const killed = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill('SIGKILL');
  });

describe('a folder', () => {
  const folder = (): string => {
    const made = mkdtempSync(join(tmpdir(), 'twinkeep-lock-'));
    closing.push(() => rmSync(made, { recursive: true, force: true }));
    return made;
  };

  it('has one owner, which a second process is shown; afterwards it is free', async () => {
    const dataDir = join(folder(), 'made', 'by', 'the', 'lock');
    const first = lockOf({ dataDir });
    await first.acquire(never);
    const second = lockOf({ dataDir });
    const refused = second.acquire(never);
    await expect(refused).rejects.toBeInstanceOf(OwnedByAnother);
    await expect(refused).rejects.toThrow(new RegExp(`pid ${process.pid}, since 2.*Z`));
    await first.release();
    expect(readdirSync(dataDir)).toEqual([]);
    await second.acquire(never);
  });

  it('is free at once when its owner was killed', async () => {
    const dataDir = folder();
    const child = await holder(null, dataDir);
    await expect(lockOf({ dataDir }).acquire(never)).rejects.toThrow(`pid ${child.pid}`);
    await killed(child);
    expect(readdirSync(dataDir)).toHaveLength(1);
    await lockOf({ dataDir }).acquire(never);
    expect(readdirSync(dataDir)).toHaveLength(1);
  });

  it('is acquired by one of many that find it abandoned', async () => {
    const dataDir = folder();
    await killed(await holder(null, dataDir));
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => lockOf({ dataDir }).acquire(never)));
    const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(refusals).toHaveLength(19);
    for (const reason of refusals) expect(reason).toBeInstanceOf(OwnedByAnother);
  });

  it('still belongs to an owner that is stopped and does not respond', async () => {
    const dataDir = folder();
    const child = await holder(null, dataDir);
    child.kill('SIGSTOP');
    await expect(lockOf({ dataDir }).acquire(never)).rejects.toBeInstanceOf(OwnedByAnother);
  });

  it('can have a path longer than a socket address', async () => {
    const dataDir = join(folder(), 'x'.repeat(120));
    mkdirSync(dataDir);
    const first = lockOf({ dataDir });
    await first.acquire(never);
    await expect(lockOf({ dataDir }).acquire(never)).rejects.toBeInstanceOf(OwnedByAnother);
    await first.release();
    await lockOf({ dataDir }).acquire(never);
  });

  it('is lost when the socket is removed', async () => {
    const dataDir = folder();
    const lock = lockOf({ dataDir });
    await lock.acquire(never);
    let lost = 0;
    lock.onLost(() => {
      lost += 1;
    });
    for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name));
    await eventually(() => lost === 1);
  });
});

describe.runIf(serverUrl)('a PostgreSQL database', () => {
  async function database(): Promise<string> {
    const { url, drop } = await freshDatabase(serverUrl ?? '', true);
    closing.push(drop);
    return url;
  }
  const backendOf = async (url: string): Promise<{ kill(): Promise<void> }> => {
    const admin = connectPostgres(url);
    closing.push(() => admin.close());
    return {
      async kill() {
        const text = `select pg_terminate_backend(pid) from pg_locks
          where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())`;
        await admin.read({ text });
      },
    };
  };

  it('has one active process; the next takes over when it is released', async () => {
    const databaseUrl = await database();
    const first = lockOf({ databaseUrl });
    await first.acquire(never);
    const second = lockOf({ databaseUrl });
    let active = false;
    const waiting = second.acquire(never).then(() => {
      active = true;
    });
    const third = lockOf({ databaseUrl: await database() });
    await third.acquire(never); // another database is another deployment
    expect(active).toBe(false);
    await first.release();
    await waiting;
  });

  it('is taken over when the active process is killed', async () => {
    const databaseUrl = await database();
    const child = await holder(databaseUrl, '/nowhere');
    const lock = lockOf({ databaseUrl });
    const waiting = lock.acquire(never);
    await killed(child);
    await waiting;
  });

  it('notifies the active process at once that its session ended, and another process takes over', async () => {
    const databaseUrl = await database();
    const first = lockOf({ databaseUrl });
    await first.acquire(never);
    let lost = 0;
    first.onLost(() => {
      lost += 1;
    });
    const second = lockOf({ databaseUrl });
    const waiting = second.acquire(never);
    await (await backendOf(databaseUrl)).kill();
    await eventually(() => lost === 1);
    await waiting;
    await first.release();
    expect(lost).toBe(1);
  });

  it('notifies the active process that its connection is dead after a timeout', async () => {
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    const lock = new AdvisoryLock(proxy.proxiedUrl(await database()), {
      ...lockParts,
      timing: { lease: 1_000, renew: 100 },
    });
    closing.push(() => lock.release());
    await lock.acquire(never);
    let lost = 0;
    lock.onLost(() => {
      lost += 1;
    });
    proxy.silence();
    await eventually(() => lost === 1);
    proxy.cut();
  });

  it('can be waited for while its server is unavailable', async () => {
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    proxy.cut();
    const lock = lockOf({ databaseUrl: proxy.proxiedUrl(await database()) });
    const waiting = lock.acquire(never);
    proxy.restore();
    await waiting;
    await lock.release();
  });

  it('is not waited for after the process is stopped', async () => {
    const databaseUrl = await database();
    await lockOf({ databaseUrl }).acquire(never);
    const stop = new AbortController();
    const waiting = lockOf({ databaseUrl }).acquire(stop.signal);
    stop.abort(new Error('the process ends'));
    await expect(waiting).rejects.toThrow();
  });
});
