import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ownsEverything } from '../../src/actors/owned-shards.ts';
import { RevokedDeviceCommands } from '../../src/actors/revoked-device-commands.ts';
import { silentLog } from '../support/lock-parts.ts';

const SWEEP_MS = 10_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A store without open commands on revoked devices, whose first `failures` calls fail. */
function makeCommands(failures = 0) {
  let left = failures;
  const openOnRevokedDevices = vi.fn(async () => {
    left -= 1;
    if (left >= 0) throw new Error('away');
    return [];
  });
  const commands = new RevokedDeviceCommands({
    supervisor: { subscribe: () => () => {} } as never,
    store: { commands: { openOnRevokedDevices } } as never,
    clock: { now: () => Date.now() },
    limits: { sweepMs: SWEEP_MS },
    log: silentLog,
    shards: ownsEverything,
  });
  return { commands, sweeps: () => openOnRevokedDevices.mock.calls.length };
}

it('sweeps at once after each commit with an unknown outcome, and again a full interval after the last one', async () => {
  const { commands, sweeps } = makeCommands();
  commands.sweepTwice();
  await vi.advanceTimersByTimeAsync(SWEEP_MS - 1);
  commands.sweepTwice();
  await vi.advanceTimersByTimeAsync(SWEEP_MS - 1);
  expect(sweeps()).toBe(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(sweeps()).toBe(3);
  await vi.advanceTimersByTimeAsync(10 * SWEEP_MS);
  expect(sweeps()).toBe(3);
});

it('repeats a sweep that failed after a second, whatever else is scheduled', async () => {
  const { commands, sweeps } = makeCommands(2);
  commands.sweepTwice();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sweeps()).toBe(3);
  await vi.advanceTimersByTimeAsync(SWEEP_MS - 2_000);
  expect(sweeps()).toBe(4);
});

it('does nothing after it was stopped', async () => {
  const { commands, sweeps } = makeCommands(1);
  commands.sweepTwice();
  commands.stop();
  await vi.advanceTimersByTimeAsync(10 * SWEEP_MS);
  expect(sweeps()).toBe(1);
});
