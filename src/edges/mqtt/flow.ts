import type { RateLimit } from './buckets.ts';
import type { Connection } from './connection.ts';
import type { MqttLimits } from './limits.ts';
import { PUBLISH } from './wire.ts';

const CLOSED = Number.POSITIVE_INFINITY;

/**
 * When the next packet of a signed-in peer is read: within its rate, with a bounded number of messages in flight, and
 * not while the rest of the house asks it to wait. Nothing is ever dropped here; the socket is not read.
 */
export class Flow {
  readonly #wire: Connection;
  readonly #limits: MqttLimits;
  readonly #rate: RateLimit;
  #messages = 0;
  #bytes = 0;
  #waits = false;

  /** `rate` outlives the connection, so that signing in again is no way round it. */
  constructor(wire: Connection, limits: MqttLimits, rate: RateLimit) {
    this.#wire = wire;
    this.#limits = limits;
    this.#rate = rate;
  }

  /** As `Gate.admit` wants it. */
  admit(type: number): number {
    if (this.#waits) return CLOSED;
    const full = this.#messages >= this.#limits.inFlight || this.#bytes >= this.#limits.inFlightBytes;
    if (type === PUBLISH && full) return CLOSED;
    return this.#rate.take();
  }

  /** A message was let through and needs attention. */
  began(length: number): void {
    this.#messages += 1;
    this.#bytes += length;
  }

  /** It needs no more attention. */
  settled(length: number): void {
    this.#messages -= 1;
    this.#bytes -= length;
    if (!this.#waits) this.#wire.proceed();
  }

  get inFlight(): number {
    return this.#messages;
  }

  /** Reads nothing until `resume`. */
  wait(): void {
    this.#waits = true;
  }

  resume(): void {
    if (!this.#waits) return;
    this.#waits = false;
    this.#wire.proceed();
  }
}
