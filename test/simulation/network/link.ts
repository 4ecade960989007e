import type { Random } from '../world/random.ts';
import type { Owner, Scheduler } from '../world/scheduler.ts';

/** Current behaviour of the network; changed by the fault injector. */
export interface Network {
  /** Maximum latency in milliseconds. */
  latency: number;
}

type Side = 'client' | 'server';

/** One end of a connection. */
export interface End {
  /** Bytes arrived, in the order of sending. */
  received(bytes: Buffer): void;
  /** The other end closed its side. */
  ended(): void;
  /** The connection was lost. */
  broke(): void;
}

/** Fraction of the writes that arrive in two pieces. */
const SPLIT = 0.1;

/**
 * A TCP connection between a client, which is part of the simulated environment, and a process. Each direction
 * preserves order and loses nothing before its end. It ends with a close, with a reset that loses bytes in transit,
 * silently (without an event at either side), or with bytes that arrive late.
 */
export class Link {
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  readonly #network: Network;
  readonly #server: Owner;
  readonly #ends: Record<Side, End>;
  #state: 'up' | 'silent' | 'stranded' | 'closed' = 'up';
  #lateMs = 0;
  /** When the last bytes of each direction arrive. */
  readonly #arrival: Record<Side, number> = { client: 0, server: 0 };

  constructor(parts: {
    scheduler: Scheduler;
    random: Random;
    network: Network;
    server: Owner;
    ends: Record<Side, End>;
  }) {
    this.#scheduler = parts.scheduler;
    this.#random = parts.random;
    this.#network = parts.network;
    this.#server = parts.server;
    this.#ends = parts.ends;
  }

  get up(): boolean {
    return this.#state === 'up';
  }

  /** Lost without an event at either side. */
  get silent(): boolean {
    return this.#state === 'silent';
  }

  /** Sends bytes, in one piece or two. Bytes that have not arrived when the connection is lost are dropped. */
  send(to: Side, bytes: Buffer): void {
    if (this.#state !== 'up') return;
    const at = bytes.length > 1 && this.#random.chance(SPLIT) ? 1 + this.#random.int(bytes.length - 1) : 0;
    if (at > 0) this.#transmit(to, bytes.subarray(0, at));
    this.#transmit(to, at > 0 ? bytes.subarray(at) : bytes);
  }

  /** Closes the connection: bytes already sent arrive before the other side's close event. */
  end(to: Side): void {
    if (this.#state !== 'up') return;
    this.#schedule(to, () => {
      if (this.#state !== 'up') return;
      this.#state = 'closed';
      this.#ends[to].ended();
      const other = to === 'client' ? 'server' : 'client';
      this.#schedule(other, () => this.#ends[other].ended());
    });
  }

  /**
   * Resets the connection: bytes in transit are lost, possibly within a packet; each side gets its event after a delay.
   */
  reset(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#schedule('client', () => this.#ends.client.broke());
    this.#schedule('server', () => this.#ends.server.broke());
  }

  /** Loses everything from now on, without an event at either side. */
  silence(): void {
    if (this.#state === 'up') this.#state = 'silent';
  }

  /**
   * The client loses the connection while bytes it sent are in transit: these arrive up to `lateMs` later, in order,
   * concurrently with those of its next connection. Then the server gets its close event.
   */
  strand(lateMs: number): void {
    if (this.#state !== 'up') return;
    this.#state = 'stranded';
    this.#lateMs = lateMs;
    this.#schedule('client', () => this.#ends.client.broke());
    const end = () => {
      if (this.#state !== 'stranded') return;
      this.#state = 'closed';
      this.#ends.server.broke();
    };
    this.#scheduler.at(2 * lateMs, end, this.#server);
  }

  #transmit(to: Side, bytes: Buffer): void {
    const deliver = () => this.#ends[to].received(bytes);
    this.#schedule(to, () => {
      if (this.#state === 'up') deliver();
      else if (this.#state === 'stranded' && to === 'server') this.#schedule('server', deliver, this.#lateMs);
    });
  }

  #schedule(to: Side, run: () => void, extraMs = 0): void {
    const { now } = this.#scheduler;
    const takesMs = this.#random.between(0.1, 0.1 + this.#network.latency + extraMs);
    const at = Math.max(now + takesMs, this.#arrival[to] + 0.001);
    this.#arrival[to] = at;
    this.#scheduler.at(at - now, run, to === 'server' ? this.#server : null);
  }
}
