import type { ClientConnection } from './client-connection.ts';
import { PUBLISH } from './mqtt-connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { RateLimit } from './token-buckets.ts';

const UNTIL_RESUMED = Number.POSITIVE_INFINITY;

/** Why a connection is not read: its messages are tried again, its session fails, or its session is about to end. */
export type PauseReason = 'overloaded' | 'failing' | 'ending';

/**
 * Flow control for a signed-in peer: admits packets within its rate, with a bounded number of messages in flight, and
 * not while paused. Drops nothing: the socket is not read until the next packet is admitted.
 */
export class FlowControl {
  readonly #connection: ClientConnection;
  readonly #limits: MqttLimits;
  readonly #rate: RateLimit;
  #messages = 0;
  #bytes = 0;
  readonly #pauses = new Set<PauseReason>();

  /** `rate` outlives the connection, so that reconnecting does not reset it. */
  constructor(connection: ClientConnection, limits: MqttLimits, rate: RateLimit) {
    this.#connection = connection;
    this.#limits = limits;
    this.#rate = rate;
  }

  /** Implements `PacketHandler.admit`. */
  admit(type: number): number {
    if (this.#pauses.size > 0) return UNTIL_RESUMED;
    const full = this.#messages >= this.#limits.inFlight || this.#bytes >= this.#limits.inFlightBytes;
    if (type === PUBLISH && full) return UNTIL_RESUMED;
    return this.#rate.take();
  }

  /** Counts a message as in flight. */
  startMessage(length: number): void {
    this.#messages += 1;
    this.#bytes += length;
  }

  /** Ends a message's processing and resumes reading unless paused. */
  finishMessage(length: number): void {
    this.#messages -= 1;
    this.#bytes -= length;
    if (this.#pauses.size === 0) this.#connection.resumeReading();
  }

  get inFlight(): number {
    return this.#messages;
  }

  /** Stops reading until `resume` was called with each reason that was given here. */
  pause(reason: PauseReason): void {
    this.#pauses.add(reason);
  }

  resume(reason: PauseReason): void {
    if (this.#pauses.delete(reason) && this.#pauses.size === 0) this.#connection.resumeReading();
  }
}
