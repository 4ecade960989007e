import { afterEach, describe, expect, inject, it } from 'vitest';
import { AdvisoryLock } from '../../../src/store/lock/advisory-lock.ts';
import { ServerProbe } from '../../../src/store/lock/server-probe.ts';
import { eventually } from '../../support/clock.ts';
import { lockParts } from '../../support/lock-parts.ts';
import { freshDatabase } from '../../support/store.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const serverUrl = inject('postgresUrl');
const NAME = 'twinkeep server probe';
const INTERVAL_MS = 20;
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function database(): Promise<string> {
  const { url, drop } = await freshDatabase(serverUrl ?? '');
  closing.push(drop);
  return url;
}

describe.runIf(serverUrl)('the probe of a node', () => {
  /** Holds the lock in one database and probes another one, or the same, through a proxy. */
  async function probing(lockUrl: string, probedUrl: string): Promise<{ proxy: TcpProxy; reasons: string[] }> {
    const lock = new AdvisoryLock(lockUrl, { ...lockParts, timing: { probe: 0 } });
    closing.push(() => lock.release());
    await lock.acquire(new AbortController().signal);
    const proxy = await startTcpProxy(serverUrl ?? '');
    closing.push(() => proxy.close());
    const reasons: string[] = [];
    const fence = () => ({ ...lock.fence(), refused: (reason: string) => void reasons.push(reason) });
    const probe = new ServerProbe(proxy.proxiedUrl(probedUrl), fence, INTERVAL_MS);
    closing.push(() => probe.stop());
    return { proxy, reasons };
  }
  /** A probe begins when the one before has ended without a finding. */
  const probes = (proxy: TcpProxy, count: number) => {
    const before = proxy.opened(NAME);
    return eventually(() => proxy.opened(NAME) > before + count);
  };

  it('finds nothing as long as the server holds the lock, or does not answer', async () => {
    const url = await database();
    const { proxy, reasons } = await probing(url, url);
    await probes(proxy, 5);
    proxy.cut();
    await eventually(() => proxy.blocked() > 3);
    proxy.restore();
    await probes(proxy, 2);
    expect(reasons).toEqual([]);
  });

  it('reports once that the lock is not held where new connections lead', async () => {
    const { proxy, reasons } = await probing(await database(), await database());
    await eventually(() => reasons.length > 0);
    expect(reasons).toEqual(['new connections lead to a server that does not hold the active lock of this node']);
    expect(proxy.opened(NAME)).toBe(1);
  });
});
