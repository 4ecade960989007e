import { describe, expect, it } from 'vitest';
import { KeyedLocks } from '../../src/services/keyed-locks.ts';
import { CommitUnknown } from '../../src/store/contract.ts';

/** Tasks that record their start and end, and end when the test releases them. */
function recorder() {
  const log: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => () => {
    log.push(`+${name}`);
    return new Promise<string>((resolve) => {
      ends.set(name, () => {
        log.push(`-${name}`);
        resolve(name);
      });
    });
  };
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (name: string) => {
    ends.get(name)?.();
    await settle();
  };
  return { log, work, end, settle };
}

describe('Locks', () => {
  it('runs exclusive tasks one after another, in order of arrival', async () => {
    const locks = new KeyedLocks();
    const { log, work, end, settle } = recorder();
    const all = [locks.exclusive('a', work('1')), locks.exclusive('a', work('2')), locks.exclusive('b', work('3'))];
    await settle();
    expect(log).toEqual(['+1', '+3']);
    await end('1');
    await end('2');
    await end('3');
    expect(log).toEqual(['+1', '+3', '-1', '+2', '-2', '-3']);
    expect(await Promise.all(all)).toEqual(['1', '2', '3']);
  });

  it('runs shared tasks concurrently, and never together with an exclusive one', async () => {
    const locks = new KeyedLocks();
    const { log, work, end, settle } = recorder();
    const all = [
      locks.shared('a', work('s1')),
      locks.shared('a', work('s2')),
      locks.exclusive('a', work('x')),
      locks.shared('a', work('s3')),
    ];
    await settle();
    expect(log).toEqual(['+s1', '+s2']);
    await end('s1');
    expect(log).toEqual(['+s1', '+s2', '-s1']);
    await end('s2');
    await end('x');
    await end('s3');
    expect(log).toEqual(['+s1', '+s2', '-s1', '-s2', '+x', '-x', '+s3', '-s3']);
    await Promise.all(all);
  });

  it('continues after a task that throws, and rejects only its caller', async () => {
    const locks = new KeyedLocks();
    const broken = locks.exclusive('a', () => Promise.reject(new Error('no')));
    const after = locks.shared('a', async () => 'fine');
    await expect(broken).rejects.toThrow('no');
    expect(await after).toBe('fine');
    expect(await locks.exclusive('a', async () => 'and again')).toBe('and again');
  });

  it.each(['exclusive', 'shared'] as const)('are held (%s) until a commit in flight has ended', async (mode) => {
    const locks = new KeyedLocks();
    const { log, work, end, settle } = recorder();
    const commit = Promise.withResolvers<void>();
    const unknown = new CommitUnknown('no answer from the store', { ended: commit.promise });
    await expect(locks[mode]('a', () => Promise.reject(unknown))).rejects.toBe(unknown);
    const next = locks.exclusive('a', work('next'));
    await settle();
    expect(log).toEqual([]);
    commit.resolve();
    await settle();
    expect(log).toEqual(['+next']);
    await end('next');
    expect(await next).toBe('next');
    expect(locks.isHeld('a')).toBe(false);
  });

  it('are released at once if no attempt of the commit is left', async () => {
    const locks = new KeyedLocks();
    const unknown = new CommitUnknown('the connection was lost');
    await expect(locks.exclusive('a', () => Promise.reject(unknown))).rejects.toBe(unknown);
    expect(await locks.exclusive('a', async () => 'next')).toBe('next');
  });
});
