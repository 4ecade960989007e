import { expect, it } from 'vitest';
import { NodeLoadMeter } from '../../src/services/node-load.ts';

it('the load of the process has actors, sessions, and positive figures of processor and memory', () => {
  const meter = new NodeLoadMeter({ liveActors: () => 7, deviceSessions: () => 5 });
  const load = meter.read();
  expect(load).toMatchObject({ liveActors: 7, deviceSessions: 5 });
  expect(load.cpuShare).toBeGreaterThanOrEqual(0);
  expect(load.eventLoopDelayMs).toBeGreaterThanOrEqual(0);
  expect(load.rssBytes).toBeGreaterThan(load.heapBytes / 2);
});

it('two readings within a second share the figures that need a period', () => {
  const time = { now: 0, cpu: 0 };
  const meter = new NodeLoadMeter({
    ...{ liveActors: () => 0, deviceSessions: () => 0 },
    ...{ monotonic: () => time.now, cpuMs: () => time.cpu },
  });
  Object.assign(time, { now: 2_000, cpu: 1_000 });
  expect(meter.read().cpuShare).toBe(0.5);
  Object.assign(time, { now: 2_500, cpu: 1_500 });
  expect(meter.read().cpuShare).toBe(0.5);
  Object.assign(time, { now: 4_000, cpu: 4_000 });
  expect(meter.read().cpuShare).toBe(1.5);
});
