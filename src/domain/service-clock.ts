import type { Clock } from './clock.ts';
import { type ClockSample, DatabaseTime } from './database-time.ts';
import type { EpochMs } from './values.ts';

/** The clocks of this host. Tests pass clocks that they step. */
export interface HostTime {
  /** May be stepped in either direction. */
  wall(): EpochMs;
  /** Monotonic milliseconds with an arbitrary origin: `performance.now()`. */
  monotonic(): number;
}

/** A difference between the service's time and the reference that is too large to be drift. */
export interface ClockStep {
  /** The reference minus the service's time, in milliseconds. */
  differenceMs: number;
  /** `seen` immediately; `corrected` when the step is confirmed and correction begins. */
  what: 'seen' | 'corrected';
}

/** Above this offset a process neither becomes active nor prunes. */
export const MAX_CLOCK_OFFSET_MS = 60_000;
/** Above drift and measurement error. */
const STEP_MS = 1_000;
/** A step is corrected only after it has lasted this long: one that is reverted earlier was a mistake. */
const CONFIRM_MS = 30_000;
/** While slewing, the service's time runs faster or slower by this factor. */
const SLEW = 0.1;

/**
 * The service's time: a monotonic clock disciplined by a reference, which is the database's clock if there is one,
 * otherwise the host's wall clock. A difference of up to one second is slewed. A larger difference is a step: after it
 * has lasted for 30 seconds, a step forward is applied at once and a step back is slewed, so that time never goes
 * backwards and no deadline is late by more than a ninth.
 */
export class ServiceClock implements Clock {
  readonly #host: HostTime;
  readonly #onStep: (step: ClockStep) => void;
  #database: DatabaseTime | null;
  /** The time was `#baseTime` at monotonic `#baseAt`, and is slewed by `#rate` until monotonic `#slewUntil`. */
  #baseAt: number;
  #baseTime: number;
  #rate = 0;
  #slewUntil = 0;
  #last: EpochMs;
  #step: { since: number; offset: number; corrected: boolean } | null = null;

  /** `sample` is the first reading of the database's clock; null if the store has no clock. */
  constructor(host: HostTime, sample: ClockSample | null, onStep: (step: ClockStep) => void = () => {}) {
    this.#host = host;
    this.#onStep = onStep;
    this.#database = sample === null ? null : new DatabaseTime(sample);
    this.#baseAt = host.monotonic();
    this.#baseTime = this.#referenceAt(this.#baseAt);
    this.#last = Math.floor(this.#baseTime);
  }

  now(): EpochMs {
    const now = Math.floor(this.#timeAt(this.#host.monotonic()));
    if (now > this.#last) this.#last = now;
    return this.#last;
  }

  elapsed(): number {
    return this.#host.monotonic();
  }

  reference(): EpochMs {
    return Math.floor(this.#referenceAt(this.#host.monotonic()));
  }

  /** Adds a reading of the database's clock; each renewal of the lease provides one. */
  observe(sample: ClockSample): void {
    if (this.#database === null) this.#database = new DatabaseTime(sample);
    else this.#database.observe(sample);
    this.synchronize();
  }

  /** The host's wall clock minus the reference, in milliseconds; 0 if the wall clock is the reference. */
  hostOffset(): number {
    return this.#database === null ? 0 : this.#host.wall() - this.#referenceAt(this.#host.monotonic());
  }

  /** The remaining correction: the reference minus the service's time, in milliseconds. */
  correction(): number {
    const at = this.#host.monotonic();
    return this.#referenceAt(at) - this.#timeAt(at);
  }

  /** Whether the host's clock and the service's time are both within a minute of the reference. */
  isTrusted(): boolean {
    return Math.abs(this.hostOffset()) <= MAX_CLOCK_OFFSET_MS && Math.abs(this.correction()) <= MAX_CLOCK_OFFSET_MS;
  }

  /** Steers towards the reference. Call it every second. */
  synchronize(): void {
    const at = this.#host.monotonic();
    const time = this.#timeAt(at);
    const reference = this.#referenceAt(at);
    const difference = reference - time;
    if (Math.abs(difference) <= STEP_MS) {
      this.#step = null;
      this.#steer(at, time, difference);
    } else if (!this.#confirmed(at, reference - at, difference)) this.#steer(at, time, 0);
    else if (difference > 0) this.#steer(at, reference, 0);
    else this.#steer(at, time, difference);
  }

  /** Whether the step has lasted long enough: the reference's offset from the monotonic clock has stayed the same. */
  #confirmed(at: number, offset: number, differenceMs: number): boolean {
    if (this.#step === null || Math.abs(offset - this.#step.offset) > STEP_MS) {
      this.#step = { since: at, offset, corrected: false };
      this.#onStep({ differenceMs, what: 'seen' });
      return false;
    }
    this.#step.offset = offset;
    if (at - this.#step.since < CONFIRM_MS) return false;
    if (!this.#step.corrected) this.#onStep({ differenceMs, what: 'corrected' });
    this.#step.corrected = true;
    return true;
  }

  #steer(at: number, time: number, difference: number): void {
    this.#baseAt = at;
    this.#baseTime = time;
    this.#rate = Math.sign(difference) * SLEW;
    this.#slewUntil = at + Math.abs(difference) / SLEW;
  }

  #timeAt(at: number): number {
    const slewed = Math.min(at, this.#slewUntil) - this.#baseAt;
    return this.#baseTime + (at - this.#baseAt) + slewed * this.#rate;
  }

  #referenceAt(at: number): number {
    return this.#database === null ? this.#host.wall() : at + this.#database.offset;
  }
}
