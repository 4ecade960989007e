import { setTimeout as pause } from 'node:timers/promises';
import type { ClockSample } from '../domain/database-time.ts';
import type { Log } from '../domain/log.ts';
import { type HostTime, MAX_CLOCK_OFFSET_MS } from '../domain/service-clock.ts';
import type { ActiveLock } from '../store/contract.ts';
import { REMIND_MS } from './clock-monitor.ts';

export interface ActivationParts {
  lock: Pick<ActiveLock, 'acquire' | 'onRenewed'>;
  host: HostTime;
  /** Null if the server does not answer. */
  readClock(): Promise<ClockSample | null>;
  log: Log;
  /** Milliseconds between two reads of the database's clock while the process is a standby. */
  checkMs?: number | undefined;
}

const CHECK_MS = 10_000;

/** Activation: acquires the active lock, except while the host's clock is more than a minute off the database's. */
export class Activation {
  readonly #parts: ActivationParts;
  readonly #checkMs: number;
  #offsetMs = 0;
  #renewal: ClockSample | null = null;
  #remindAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ActivationParts) {
    this.#parts = parts;
    this.#checkMs = parts.checkMs ?? CHECK_MS;
    parts.lock.onRenewed((sample) => {
      this.#renewal = sample;
    });
  }

  /** The host's clock minus the database's in milliseconds, if it is more than a minute; else null. */
  untrustedOffsetMs(): number | null {
    return Math.abs(this.#offsetMs) > MAX_CLOCK_OFFSET_MS ? this.#offsetMs : null;
  }

  /** Resolves when the lock is held, with the clock sample taken with it; rejects when `signal` aborts. */
  async acquire(signal: AbortSignal): Promise<ClockSample | null> {
    while (!(await this.#acquireWhileClose(signal))) signal.throwIfAborted();
    return this.#renewal;
  }

  /** False if the clock became wrong while waiting. */
  async #acquireWhileClose(signal: AbortSignal): Promise<boolean> {
    await this.#waitForClock(signal);
    const clockWrong = new AbortController();
    const done = new AbortController();
    void this.#watch(clockWrong, done.signal);
    try {
      // A server that was unavailable at the last clock check may grant the lock at any time.
      await this.#parts.lock.acquire(AbortSignal.any([signal, clockWrong.signal]), (sample) => {
        if (this.#isClockClose(sample)) return true;
        clockWrong.abort();
        return false;
      });
      return true;
    } catch (error) {
      if (signal.aborted || !clockWrong.signal.aborted) throw error;
      return false;
    } finally {
      done.abort();
    }
  }

  async #waitForClock(signal: AbortSignal): Promise<void> {
    while (!(await this.#checkClock())) await pause(this.#checkMs, undefined, { signal });
  }

  async #watch(clockWrong: AbortController, signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await pause(this.#checkMs, undefined, { signal, ref: false });
        if (!(await this.#checkClock()) && !signal.aborted) return clockWrong.abort();
      }
    } catch {
      // The lock is held, or no longer needed.
    }
  }

  /** True also if the server does not answer: an unavailable server does not end the wait for its lock. */
  async #checkClock(): Promise<boolean> {
    const sample = await this.#parts.readClock();
    return sample === null || this.#isClockClose(sample);
  }

  #isClockClose(sample: ClockSample): boolean {
    const { host, log } = this.#parts;
    const now = host.monotonic();
    this.#offsetMs = host.wall() - (sample.databaseNow + now - (sample.sentAt + sample.receivedAt) / 2);
    if (this.untrustedOffsetMs() === null) return true;
    if (now >= this.#remindAt) {
      this.#remindAt = now + REMIND_MS;
      log.warn(
        { host_offset_s: this.#offsetMs / 1000 },
        'standby: the host clock is more than a minute off the database clock; not becoming active',
      );
    }
    return false;
  }
}
