import type { Connection } from './connection.ts';
import { PUBLISH } from './mqtt-connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { RateLimit } from './token-buckets.ts';

const UNTIL_RESUMED = Number.POSITIVE_INFINITY;

/**
 * When the next packet of a signed-in peer is read: within its rate, with a bounded number of messages in flight, and
 * not while the rest of the house asks it to wait. Nothing is ever dropped here; the socket is not read.
 */
export class FlowControl {
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
    if (this.#waits) return UNTIL_RESUMED;
    const full = this.#messages >= this.#limits.inFlight || this.#bytes >= this.#limits.inFlightBytes;
    if (type === PUBLISH && full) return UNTIL_RESUMED;
    return this.#rate.take();
  }

  /** A message was let through and needs attention. */
  startMessage(length: number): void {
    this.#messages += 1;
    this.#bytes += length;
  }

  /** It needs no more attention. */
  finishMessage(length: number): void {
    this.#messages -= 1;
    this.#bytes -= length;
    if (!this.#waits) this.#wire.resumeReading();
  }

  get inFlight(): number {
    return this.#messages;
  }

  /** Reads nothing until `resume`. */
  pause(): void {
    this.#waits = true;
  }

  resume(): void {
    if (!this.#waits) return;
    this.#waits = false;
    this.#wire.resumeReading();
  }
}
