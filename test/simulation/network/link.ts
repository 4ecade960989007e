import type { Random } from '../world/random.ts';
import type { Owner, Scheduler } from '../world/scheduler.ts';

/** How the network behaves; the fault injector changes it. */
export interface Network {
  /** The longest that a packet takes, in milliseconds. */
  latency: number;
}

type Side = 'client' | 'server';

/**
 * A TCP connection between a client, which is part of the world, and a process. Each direction keeps its order. It ends
 * properly, by a reset that loses what is under way, silently (then neither side is told), or with packets that arrive late.
 */
export class Link {
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  readonly #network: Network;
  readonly #server: Owner;
  #state: 'up' | 'silent' | 'stranded' | 'closed' = 'up';
  #lateMs = 0;
  /** When the last packet of each direction arrives. */
  readonly #arrival: Record<Side, number> = { client: 0, server: 0 };

  constructor(parts: { scheduler: Scheduler; random: Random; network: Network; server: Owner }) {
    this.#scheduler = parts.scheduler;
    this.#random = parts.random;
    this.#network = parts.network;
    this.#server = parts.server;
  }

  get up(): boolean {
    return this.#state === 'up';
  }

  /** Hands a packet to the other side; nothing comes of it where the connection ends before it arrives. */
  send(to: Side, deliver: () => void): void {
    if (this.#state !== 'up') return;
    this.#schedule(to, () => {
      if (this.#state === 'up') deliver();
      else if (this.#state === 'stranded' && to === 'server') this.#schedule('server', deliver, this.#lateMs);
    });
  }

  /** Ends properly: what was sent arrives before `closed` is called at the other side. */
  end(to: Side, closed: () => void): void {
    if (this.#state !== 'up') return;
    this.#schedule(to, () => {
      if (this.#state !== 'up') return;
      this.#state = 'closed';
      closed();
    });
  }

  /** What is under way is lost; each side is told after a while. */
  reset(closed: Record<Side, () => void>): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#schedule('client', closed.client);
    this.#schedule('server', closed.server);
  }

  /** Loses everything from now on, and tells nobody. */
  silence(): void {
    if (this.#state === 'up') this.#state = 'silent';
  }

  /**
   * The client is told that the connection broke, while what it had sent is still under way: it arrives up to `lateMs` later, in its
   * order, beside what the client sends on its next connection. Then the server is told.
   */
  strand(lateMs: number, closed: Record<Side, () => void>): void {
    if (this.#state !== 'up') return;
    this.#state = 'stranded';
    this.#lateMs = lateMs;
    this.#schedule('client', closed.client);
    const end = () => {
      if (this.#state !== 'stranded') return;
      this.#state = 'closed';
      closed.server();
    };
    this.#scheduler.at(2 * lateMs, end, this.#server);
  }

  #schedule(to: Side, run: () => void, extraMs = 0): void {
    const { now } = this.#scheduler;
    const takesMs = this.#random.between(0.1, 0.1 + this.#network.latency + extraMs);
    const at = Math.max(now + takesMs, this.#arrival[to] + 0.001);
    this.#arrival[to] = at;
    this.#scheduler.at(at - now, run, to === 'server' ? this.#server : null);
  }
}
