/** The connection that a `KeepAlive` watches. */
export interface WatchedConnection {
  readonly closing: boolean;
  /** Bytes of the peer wait to be processed. */
  readonly hasBuffered: boolean;
  terminate(reason: 'silent'): void;
}

/**
 * Terminates a connection whose peer sends nothing for one and a half times its keep-alive [MQTT-3.1.2-24]. Aedes would
 * count only the packets that it receives, and a PUBLISH goes past it.
 */
export class KeepAlive {
  readonly #connection: WatchedConnection;
  #lastReceivedAt = performance.now();
  #timer: NodeJS.Timeout | null = null;

  constructor(connection: WatchedConnection) {
    this.#connection = connection;
  }

  /** Starts the check; 0 seconds disable it. */
  start(seconds: number): void {
    if (seconds > 0 && !this.#connection.closing) this.#scheduleCheck(seconds * 1_500, seconds * 1_500);
  }

  /** The peer has sent something. */
  received(): void {
    this.#lastReceivedAt = performance.now();
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Checks in `delayMs` whether the peer was idle for `maxIdleMs`. A peer with buffered bytes is not idle. */
  #scheduleCheck(maxIdleMs: number, delayMs: number): void {
    this.#timer = setTimeout(() => {
      // The process may have been busy: drain pending reads first.
      setImmediate(() => {
        const connection = this.#connection;
        if (connection.closing) return;
        const idleMs = connection.hasBuffered ? 0 : performance.now() - this.#lastReceivedAt;
        if (idleMs >= maxIdleMs) connection.terminate('silent');
        else this.#scheduleCheck(maxIdleMs, maxIdleMs - idleMs);
      });
    }, delayMs);
  }
}
