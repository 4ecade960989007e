import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LEASE_MS } from '../../src/domain/lease.ts';
import type { Invalidation } from '../../src/services/invalidation-bus.ts';
import {
  HEARTBEAT_MS,
  MAX_STALENESS_MS,
  SharedInvalidationBus,
  type SharedInvalidationBusParts,
} from '../../src/services/shared-invalidation-bus.ts';
import { type BusLink, BusNetwork } from '../support/bus-network.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';

const log = { debug() {}, info() {}, warn: vi.fn(), error() {} };

interface Node {
  bus: SharedInvalidationBus;
  link: BusLink;
  received: Invalidation[];
  /** Number of calls of the listener of missed invalidations. */
  missed: number;
  failMissed: boolean;
}

let network: BusNetwork;
const nodes: Node[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  network = new BusNetwork();
  log.warn.mockClear();
});
afterEach(async () => {
  for (const { bus, link } of nodes.splice(0)) {
    link.restore();
    await bus.close();
  }
  vi.useRealTimers();
});

async function start(
  origin: string,
  { receiving = 'open', ...parts }: Partial<SharedInvalidationBusParts & Pick<BusLink, 'receiving'>> = {},
): Promise<Node> {
  const link = network.connect();
  link.receiving = receiving;
  const bus = await SharedInvalidationBus.open({ cache: link, origin, log, ...parts });
  const node: Node = { bus, link, received: [], missed: 0, failMissed: false };
  bus.subscribe((item) => node.received.push(item));
  bus.subscribeMissed(async () => {
    node.missed += 1;
    if (node.failMissed) throw new Error('the store is away');
  });
  nodes.push(node);
  return node;
}

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);

/** Nodes that are current. */
async function started(count: number): Promise<Node[]> {
  const all = await Promise.all(Array.from({ length: count }, (_, n) => start(`node-${n}`)));
  await pass(3 * HEARTBEAT_MS);
  expect(all.map(({ bus }) => bus.isCurrent())).toEqual(all.map(() => true));
  for (const node of all) node.missed = 0;
  return all;
}

const key = (prefix: string): Invalidation => ({ about: 'key', prefix });

describe('a node', () => {
  it('is current once its own heartbeat has returned and its caches were refreshed', async () => {
    const node = await start('one', { receiving: 'held' });
    await pass(5 * HEARTBEAT_MS);
    expect([node.bus.isCurrent(), node.missed]).toEqual([false, 0]);
    node.link.restore();
    await pass(HEARTBEAT_MS);
    expect([node.bus.isCurrent(), node.missed]).toEqual([true, 1]);
    await pass(60_000);
    expect([node.bus.isCurrent(), node.missed]).toEqual([true, 1]);
  });

  it('is not current until its caches could be refreshed', async () => {
    const node = await start('one', { receiving: 'held' });
    node.failMissed = true;
    node.link.restore();
    await pass(2 * HEARTBEAT_MS);
    expect([node.bus.isCurrent(), node.missed > 1, log.warn.mock.calls.length > 0]).toEqual([false, true, true]);
    node.failMissed = false;
    await pass(HEARTBEAT_MS);
    expect(node.bus.isCurrent()).toBe(true);
  });

  it('sends every second heartbeat while it knows no other node, and all of them from the first message of one on', async () => {
    const [one] = (await started(1)) as [Node];
    const sent = vi.spyOn(one.link, 'publish');
    await pass(20 * HEARTBEAT_MS);
    expect([sent.mock.calls.length, one.bus.isCurrent()]).toEqual([10, true]);
    const two = await start('two');
    sent.mockClear();
    await pass(10 * HEARTBEAT_MS);
    expect([sent.mock.calls.length, one.bus.isCurrent(), two.bus.isCurrent()]).toEqual([10, true, true]);
  });

  it('receives its own invalidations before publishing returns, and those of the others once', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    one.bus.publish(key('a'));
    expect(one.received).toEqual([key('a')]);
    await pass(0);
    expect([one.received, two.received]).toEqual([[key('a')], [expect.objectContaining(key('a'))]]);
  });

  it.each(['held', 'deaf'] as const)('that receives nothing (%s) is not current after a second', async (how) => {
    const [one, two] = (await started(2)) as [Node, Node];
    two.link.receiving = how;
    await pass(MAX_STALENESS_MS);
    expect([one.bus.isCurrent(), two.bus.isCurrent()]).toEqual([false, false]);
    two.link.restore();
    await pass(2 * HEARTBEAT_MS);
    expect([one.bus.isCurrent(), two.bus.isCurrent()]).toEqual([true, true]);
    // Messages that were only late are no reason to drop the caches.
    expect([one.missed, two.missed > 0]).toEqual([0, how === 'deaf']);
  });

  it('notices one lost message', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    two.link.receiving = 'deaf';
    one.bus.publish(key('a'));
    await pass(0);
    two.link.receiving = 'open';
    await pass(2 * HEARTBEAT_MS);
    expect([one.missed, two.missed, two.received]).toEqual([0, 1, []]);
    expect(two.bus.isCurrent()).toBe(true);
  });

  it('whose connection was lost is not current until a heartbeat has returned on the next one', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    const { gaps } = two.bus;
    two.link.receiving = 'deaf';
    two.link.interrupt();
    expect([one.bus.isCurrent(), two.bus.isCurrent(), two.bus.gaps]).toEqual([true, false, gaps + 1]);
    await pass(MAX_STALENESS_MS);
    expect([two.bus.isCurrent(), two.missed]).toEqual([false, 0]);
    two.link.restore();
    await pass(2 * HEARTBEAT_MS);
    expect([two.bus.isCurrent(), two.missed > 0]).toEqual([true, true]);
  });

  it.each(['held', 'cut'] as const)(
    'that cannot publish (%s) makes the others not current; its invalidations arrive before they are again',
    async (how) => {
      const [one, two] = (await started(2)) as [Node, Node];
      one.link.sending = how;
      one.bus.publish(key('a'));
      one.bus.publish(key('b'));
      await pass(MAX_STALENESS_MS);
      expect([two.bus.isCurrent(), two.received]).toEqual([false, []]);
      await pass(LEASE_MS / 2);
      expect(two.bus.isCurrent()).toBe(false);
      one.link.restore();
      await pass(HEARTBEAT_MS);
      expect(two.received).toMatchObject([key('a'), key('b')]);
      await pass(2 * HEARTBEAT_MS);
      expect(two.bus.isCurrent()).toBe(true);
      expect(log.warn.mock.calls.length).toBe(how === 'cut' ? 1 : 0);
    },
  );

  it('that drops invalidations, because it has too many to publish, makes the others drop their caches', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    one.link.sending = 'cut';
    for (let n = 0; n < 12_000; n++) one.bus.publish(key(`${n}`));
    expect(one.bus.sizes().invalidations_queued).toBeLessThan(10_001);
    one.link.restore();
    await pass(3 * HEARTBEAT_MS);
    expect([two.missed > 0, two.bus.isCurrent()]).toEqual([true, true]);
  });

  it('that joins does not interrupt the others', async () => {
    const [one] = (await started(1)) as [Node];
    const two = await start('late');
    for (let n = 0; n < 10; n++) {
      await pass(HEARTBEAT_MS / 2);
      expect(one.bus.isCurrent()).toBe(true);
    }
    expect([two.bus.isCurrent(), one.missed]).toEqual([true, 0]);
  });

  it('that closes does not interrupt the others', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    two.bus.publish(key('last'));
    await two.bus.close();
    expect([two.bus.isCurrent(), one.received]).toEqual([false, [expect.objectContaining(key('last'))]]);
    await pass(2 * LEASE_MS);
    expect([one.bus.isCurrent(), one.missed, one.bus.sizes().invalidation_peers]).toEqual([true, 0, 0]);
  });

  it('that ends without notice interrupts the others until its lease would have ended', async () => {
    const [one, two] = (await started(2)) as [Node, Node];
    two.link.sending = 'cut';
    await pass(MAX_STALENESS_MS);
    expect(one.bus.isCurrent()).toBe(false);
    await pass(LEASE_MS - MAX_STALENESS_MS - HEARTBEAT_MS);
    expect(one.bus.isCurrent()).toBe(false);
    await pass(3 * HEARTBEAT_MS);
    expect([one.bus.isCurrent(), one.missed]).toEqual([true, 1]);
  });

  it('that is known to be alive, but cannot reach the bus, interrupts the others as long as it is alive', async () => {
    const live = new Set(['one', 'two']);
    const one = await start('one', { liveNodes: () => live });
    await pass(LEASE_MS * 2);
    expect(one.bus.isCurrent()).toBe(false);
    live.delete('two');
    await pass(2 * HEARTBEAT_MS);
    expect(one.bus.isCurrent()).toBe(true);
  });

  it('that closes does not interrupt the others, however long it is listed as alive', async () => {
    const liveNodes = () => new Set(['one', 'two']);
    const [one, two] = [await start('one', { liveNodes }), await start('two', { liveNodes })];
    await pass(3 * HEARTBEAT_MS);
    one.missed = 0;
    await two.bus.close();
    await pass(LEASE_MS);
    expect([one.bus.isCurrent(), one.missed]).toEqual([true, 0]);
  });

  it('that joins does not interrupt the others before it is listed as alive', async () => {
    const one = await start('one', { liveNodes: () => new Set(['one']) });
    await pass(HEARTBEAT_MS);
    one.missed = 0;
    const two = await start('two', { liveNodes: () => new Set(['one', 'two']) });
    await pass(MAX_STALENESS_MS);
    expect([one.bus.isCurrent(), two.bus.isCurrent(), one.missed]).toEqual([true, true, 0]);
  });

  it.each(['', 'node-1', 'node-1 {', 'node-1 {"about":"key","prefix":"a"}', 'node-1 {"about":"heartbeat"}', 'x null'])(
    'ignores a message of another form: %j',
    async (message) => {
      const [one, two] = (await started(2)) as [Node, Node];
      await one.link.publish('invalidations', message);
      expect([two.received, two.missed, two.bus.isCurrent()]).toEqual([[], 0, true]);
    },
  );
});

describe('a cached value', () => {
  const STEP_MS = 50;
  const fault = fc.record({
    node: fc.nat(2),
    action: fc.constantFrom('hold', 'deafen', 'interrupt', 'stall', 'cut', 'change', 'lose', 'restore', 'restore'),
    steps: fc.nat(30),
  });

  it('is at most a second old while the bus is current, for any faults of the network', slow, async () => {
    let trusted = 0;
    let distrusted = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 5, maxLength: 20 }), async (faults) => {
        network = new BusNetwork();
        // All can change the store all the time.
        const liveNodes = () => new Set(['node-0', 'node-1', 'node-2']);
        const own = await Promise.all([0, 1, 2].map((n) => start(`node-${n}`, { liveNodes })));
        /** The stored value, and when it was changed. */
        const changes: number[] = [];
        const cached: (number | null)[] = [null, null, null];
        for (const [n, { bus }] of own.entries()) {
          bus.subscribe(() => {
            cached[n] = null;
          });
          bus.subscribeMissed(() => {
            cached[n] = null;
          });
        }
        const check = (): void => {
          for (const [n, { bus }] of own.entries()) {
            if (!bus.isCurrent()) {
              distrusted += 1;
              continue;
            }
            trusted += 1;
            cached[n] ??= changes.length;
            const changedAt = changes[cached[n]];
            if (changedAt !== undefined) expect(performance.now() - changedAt).toBeLessThanOrEqual(MAX_STALENESS_MS);
          }
        };
        const change = (node: number): void => {
          changes.push(performance.now());
          own[node]?.bus.publish(key('value'));
        };
        for (const { node, action, steps } of faults) {
          const { link } = own[node] as Node;
          const other = (node + 1) % own.length;
          if (action === 'interrupt') link.interrupt();
          else if (action === 'restore') link.restore();
          else if (action === 'hold') link.receiving = 'held';
          else if (action === 'stall') link.sending = 'held';
          else if (action === 'cut') link.sending = 'cut';
          else link.receiving = action === 'change' ? 'open' : 'deaf';
          if (action !== 'interrupt' && action !== 'restore') change(action === 'lose' ? other : node);
          await pass(0);
          if (action === 'lose') link.receiving = 'open';
          for (let n = 0; n <= steps; n++) {
            check();
            await pass(STEP_MS);
          }
        }
        for (const { bus, link } of nodes.splice(0)) {
          link.restore();
          await bus.close();
        }
      }),
      runs(60),
    );
    expectReached(() => expect(Math.min(trusted, distrusted)).toBeGreaterThan(1_000));
  });
});

describe('a node of a newer build', () => {
  it('may add members to a message, which this build ignores', async () => {
    const [one] = (await started(1)) as [Node];
    const newer = network.connect();
    const send = (body: object) => newer.publish('', `newer ${JSON.stringify(body)}`);
    await send({ about: 'heartbeat', seen: {}, n: 1, added: 1 });
    await send({ about: 'key', prefix: 'a', n: 2, added: { deep: true } });
    expect(one.received).toEqual([{ about: 'key', prefix: 'a', n: 2 }]);
  });

  it('may send a message that this build does not know: it counts as missed with the next one', async () => {
    const [one] = (await started(1)) as [Node];
    const newer = network.connect();
    const send = (body: object) => newer.publish('', `newer ${JSON.stringify(body)}`);
    await send({ about: 'heartbeat', seen: {}, n: 1 });
    const { gaps } = one.bus;
    await send({ about: 'something new', n: 2 });
    await send({ about: 'key', prefix: 'a', n: 3 });
    expect([one.bus.gaps, one.bus.isCurrent()]).toEqual([gaps + 1, false]);
    expect(one.received).toEqual([{ about: 'key', prefix: 'a', n: 3 }]);
    await send({ about: 'closing', n: 4 });
    await pass(2 * HEARTBEAT_MS);
    expect([one.bus.isCurrent(), one.missed]).toEqual([true, 1]);
  });
});
