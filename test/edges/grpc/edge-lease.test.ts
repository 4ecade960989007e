import { describe, expect, it, onTestFinished } from 'vitest';
import { LEASE_MS, RenewedLease, unlimitedLease } from '../../../src/domain/lease.ts';
import { Dialler } from '../../../src/edges/grpc/dialler.ts';
import { defaultSidecarLimits } from '../../../src/edges/grpc/sidecar-limits.ts';
import { newId } from '../../../src/main/ids.ts';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import { silentLog } from '../../support/lock-parts.ts';
import { freePort } from '../../support/programs.ts';
import type { Proposal } from '../../support/sidecar.ts';
import { startSidecar } from '../../support/sidecar.ts';
import { service } from './edge-harness.ts';

/** A lease on a clock that the test sets. */
function testLease() {
  let now = 0;
  const lease = new RenewedLease(
    LEASE_MS,
    () => now,
    () => {},
  );
  lease.begin(1, now);
  const outlast = () => {
    now += LEASE_MS;
  };
  return { lease, outlast };
}

const turnOff = (deviceId: string, nodeId: string): Proposal => ({
  case: 'graphNode',
  value: { node: { nodeId, deviceId, action: 'turn_off' } },
});

/** A goal that was sent to a connected sidecar. */
async function connected() {
  const { lease, outlast } = testLease();
  const there = await service({}, lease);
  const lamp = there.device();
  const { id } = there.cognition.open({ id: newId(), tenantId: there.tenantId, homeId: there.homeId });
  const sidecar = await there.sidecar();
  const stream = await sidecar.waitForStream();
  await eventually(() => stream.eventsOf('perceptionUpdate').length === 1);
  return { ...there, outlast, lamp, id, sidecar, stream };
}

describe('the stream to the sidecar, after the lease of this process ended,', () => {
  it('sends no event, and is closed', async () => {
    const { outlast, cognition, id, stream } = await connected();
    const before = stream.events.length;
    outlast();
    cognition.interrupt(id, 'CANCELLED');
    await eventually(() => stream.ended || stream.events.length > before);
    expect(stream.events).toHaveLength(before);
  });

  it('sends no event whose content was read when the lease ended', async () => {
    const { outlast, cognition, report, lamp, stream } = await connected();
    const before = stream.events.length;
    let isRead = false;
    cognition.beforeAnswer = () => {
      outlast();
      isRead = true;
    };
    report(lamp, { on: true });
    await eventually(() => isRead);
    await eventually(() => stream.ended || stream.events.length > before);
    expect(stream.events).toHaveLength(before);
  });

  it('executes no arriving proposal, and is closed', async () => {
    const { outlast, cognition, id, lamp, stream, counts } = await connected();
    outlast();
    stream.send({ contextId: id, proposal: turnOff(lamp.id, 'late') });
    await eventually(() => stream.ended || cognition.calls.length > 0);
    expect(cognition.calls).toEqual([]);
    expect(counts.get('heard graphNode')).toBeUndefined();
  });

  it('executes no proposal that waited for an earlier one of its context', async () => {
    const { outlast, cognition, id, lamp, stream, counts } = await connected();
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    cognition.beforeAnswer = () => answered;
    stream.send({ contextId: id, proposal: turnOff(lamp.id, 'first') });
    stream.send({ contextId: id, proposal: turnOff(lamp.id, 'second') });
    await eventually(() => cognition.calls.length === 1 && counts.get('heard graphNode') === 2);
    outlast();
    answer();
    await eventually(() => stream.ended);
    await eventLoopTurns();
    expect(cognition.calls.map(({ sent }) => sent)).toMatchObject([{ id: 'first' }]);
  });

  it('is not dialled again', async () => {
    const { lease, outlast } = testLease();
    const port = await freePort();
    const dialler = (limit: typeof lease | typeof unlimitedLease) => {
      const count = { attempts: 0 };
      const dialled = new Dialler({
        address() {
          count.attempts += 1;
          return `127.0.0.1:${port}`;
        },
        limits: { ...defaultSidecarLimits, backoff: { firstMs: 1, maxMs: 2 } },
        lease: limit,
        log: silentLog,
        handleStream: () => ({ onProposal() {}, onClose() {} }),
      });
      onTestFinished(() => dialled.close());
      return Object.assign(dialled, { count });
    };
    const stale = dialler(lease);
    const active = dialler(unlimitedLease);
    await eventually(() => stale.count.attempts > 1);
    outlast();
    const { attempts } = stale.count;
    const goal = active.count.attempts + 10;
    await eventually(() => active.count.attempts >= goal);
    const sidecar = await startSidecar({ port });
    onTestFinished(() => sidecar.kill());
    await eventually(() => active.connected());
    stale.retryNow();
    await eventLoopTurns();
    expect(stale.count.attempts).toBe(attempts);
    expect(stale.connected()).toBe(false);
    expect(sidecar.streams).toHaveLength(1);
  });
});
