import type { Clock } from '../domain/clock.ts';
import type { ClockSample } from '../domain/database-time.ts';
import type { Log } from '../domain/log.ts';
import { type HostTime, ServiceClock } from '../domain/service-clock.ts';
import type { ClockOffsets } from '../services/health.ts';

/** The service clock, and its offsets for health and metrics. */
export interface ClockMonitor {
  clock: Clock;
  offsets(): ClockOffsets;
  /** The offsets while the clocks are more than a minute apart, else null. */
  untrustedOffsets(): ClockOffsets | null;
  /** Adds a sample of the database's clock. */
  observe(sample: ClockSample): void;
  stop(): void;
}

const SYNCHRONIZE_MS = 1_000;
/** Interval between two log lines about the same condition. */
export const REMIND_MS = 60_000;

export const hostTime = (wall: () => number = Date.now): HostTime => ({ wall, monotonic: () => performance.now() });

/** Runs a `ServiceClock` from `sample` on; logs clock steps and, every minute, an offset that is too large. */
export function startClockMonitor(host: HostTime, sample: ClockSample | null, log: Log): ClockMonitor {
  const clock = new ServiceClock(host, sample, ({ what, differenceMs }) => {
    const details = { difference_s: differenceMs / 1000 };
    if (what === 'seen') log.warn(details, 'clock step detected; waiting for confirmation');
    else log.warn(details, 'clock step confirmed; correcting the service time');
  });
  const offsets = () => ({ hostMs: clock.hostOffset(), correctionMs: clock.correction() });
  const untrusted = () => (clock.isTrusted() ? null : offsets());
  let remindAt = Number.NEGATIVE_INFINITY;
  const synchronizeTimer = setInterval(() => {
    clock.synchronize();
    const offsetsNow = untrusted();
    if (offsetsNow === null || host.monotonic() < remindAt) return;
    remindAt = host.monotonic() + REMIND_MS;
    log.warn(
      { host_offset_s: offsetsNow.hostMs / 1000, correction_s: offsetsNow.correctionMs / 1000 },
      'clock is more than a minute off; health is degraded and pruning is suspended',
    );
  }, SYNCHRONIZE_MS).unref();
  return {
    ...{ clock, offsets, untrustedOffsets: untrusted },
    observe: (sample) => clock.observe(sample),
    stop: () => clearInterval(synchronizeTimer),
  };
}

/** A monitor for a given clock, which is always trusted. */
export const fixedClockMonitor = (clock: Clock): ClockMonitor => ({
  clock,
  offsets: () => ({ hostMs: 0, correctionMs: 0 }),
  untrustedOffsets: () => null,
  observe() {},
  stop() {},
});
