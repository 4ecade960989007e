import { z } from 'zod';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { LEASE_MS, type MonotonicClock } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Cache } from '../store/contract.ts';
import {
  CHANNEL,
  type Invalidation,
  type InvalidationBus,
  makeLocalInvalidationBus,
  messageParts,
  parseInvalidation,
} from './invalidation-bus.ts';

export const HEARTBEAT_MS = 300;
/** A change takes effect within a second (contract §3). */
export const MAX_STALENESS_MS = 1_000;
/** Bounds the effect of a change that no bus reports, such as an operator's SQL. */
const ENTRY_LIFE_MS = 60_000;
/** A silent node may still act until its lease has ended. */
const PEER_LIFE_MS = LEASE_MS;
/** Beyond it, one message replaces the queued ones: other nodes drop their caches. */
const MAX_QUEUED = 10_000;

/** `n` counts the attempts of its sender to publish, so that a receiver notices a lost message. */
const numbered = z.object({ n: z.int() });
const signal = z.discriminatedUnion('about', [
  /** Sent while the sender has no unsent invalidation. `seen`: the last heartbeat of each other node it received. */
  numbered.extend({ about: z.literal('heartbeat'), seen: z.record(z.string(), z.int()) }),
  /** The sender stops; it has no unsent invalidation. */
  numbered.extend({ about: z.literal('closing') }),
  /** Invalidations of the sender were dropped. */
  numbered.extend({ about: z.literal('everything') }),
]);
type Signal = z.infer<typeof signal>;
type Unnumbered =
  | Invalidation
  | { about: 'heartbeat'; seen: Readonly<Record<string, number>> }
  | { about: 'closing' | 'everything' };

interface Peer {
  /** Number of its last message, and of its last heartbeat. */
  last: number;
  heartbeat: number;
  receivedAt: number;
  /** End of the time in which all of its invalidations older than `MAX_STALENESS_MS` are certainly received. */
  until: number;
}

export interface SharedInvalidationBusParts {
  cache: Pick<Cache, 'publish' | 'subscribe'>;
  /** Unique name of this node, without a space. */
  origin: string;
  log: Log;
  /**
   * Names (`origin`) of the nodes that may act, including nodes that cannot reach the server of the bus. Default: those
   * that were received from within the duration of a lease, which is right if the bus is in the database of the leases.
   */
  liveNodes?: () => ReadonlySet<string>;
  /** Defaults to `performance.now()`. */
  monotonic?: MonotonicClock;
}

/**
 * Invalidation bus of several active nodes with bounded staleness. Each node sends heartbeats, which name the last
 * heartbeats that it received from the others. A heartbeat of a peer that names a heartbeat of this node was sent after
 * it, and everything that the peer published before was received before: the bus is current until a second after this
 * node sent the oldest of the heartbeats that its peers last returned, for any delay on the way. Messages are sent one at
 * a time and are repeated until the server takes them; until then no heartbeat is sent, so that the other nodes read
 * from the store.
 */
export class SharedInvalidationBus implements InvalidationBus {
  readonly entryLifeMs = ENTRY_LIFE_MS;
  readonly #parts: SharedInvalidationBusParts;
  readonly #now: MonotonicClock;
  readonly #local = makeLocalInvalidationBus();
  readonly #missedListeners = new Set<() => void | Promise<void>>();
  readonly #peers = new Map<string, Peer>();
  /** Nodes that have closed, but are still listed as live. */
  readonly #closedPeers = new Set<string>();
  /** When the latest heartbeats of this node were sent, by their number. */
  readonly #sent = new Map<number, number>();
  readonly #timer: NodeJS.Timeout;
  #queue: (Invalidation | { about: 'everything' })[] = [];
  #n = 0;
  #sending: Promise<void> | null = null;
  #heartbeatDue = true;
  /** No heartbeat was due at the last interval. */
  #skipped = false;
  #publishFails = false;
  #closed = false;
  /** Like `Peer.until`, for the way of this node's own messages. */
  #ownUntil = Number.NEGATIVE_INFINITY;
  #currentUntil = Number.NEGATIVE_INFINITY;
  #gaps = 1;
  #recoveredGaps = 0;
  #recovering = false;
  #unsubscribe: () => Promise<void> = async () => {};

  constructor(parts: SharedInvalidationBusParts) {
    this.#parts = parts;
    this.#now = parts.monotonic ?? (() => performance.now());
    this.#timer = setInterval(() => this.#tick(), HEARTBEAT_MS).unref();
  }

  static async open(parts: SharedInvalidationBusParts): Promise<SharedInvalidationBus> {
    const bus = new SharedInvalidationBus(parts);
    bus.#unsubscribe = await parts.cache.subscribe(
      CHANNEL,
      (message) => bus.#receive(message),
      () => bus.#interrupted(),
    );
    bus.#send();
    return bus;
  }

  get gaps(): number {
    return this.#gaps;
  }

  isCurrent(): boolean {
    return this.#now() < this.#currentUntil;
  }

  publish(item: Invalidation): void {
    this.#local.publish(item);
    if (this.#queue.length >= MAX_QUEUED) this.#queue = [{ about: 'everything' }];
    else this.#queue.push(item);
    this.#send();
  }

  subscribe(listener: (item: Invalidation) => void): () => void {
    return this.#local.subscribe(listener);
  }

  subscribeMissed(listener: () => void | Promise<void>): () => void {
    this.#missedListeners.add(listener);
    return () => this.#missedListeners.delete(listener);
  }

  sizes(): CollectionSizes {
    return {
      ...this.#local.sizes(),
      invalidation_gap_listeners: this.#missedListeners.size,
      invalidation_peers: this.#peers.size,
      invalidation_closed_peers: this.#closedPeers.size,
      invalidations_queued: this.#queue.length,
      invalidation_heartbeats: this.#sent.size,
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#heartbeatDue = false;
    await this.#sending;
    this.#closed = true;
    this.#currentUntil = Number.NEGATIVE_INFINITY;
    // Without it, the other nodes wait for this one until its lease would have ended.
    if (this.#queue.length === 0) await this.#attempt({ about: 'closing' });
    await this.#unsubscribe();
  }

  /**
   * Without peers every second heartbeat suffices: the message of a node is confirmed by its own return, and need not
   * wait for the next heartbeat of a peer.
   */
  #tick(): void {
    this.#skipped = this.#peers.size === 0 && this.isCurrent() && !this.#publishFails && !this.#skipped;
    if (!this.#skipped) this.#heartbeatDue = true;
    this.#send();
    this.#evaluate();
  }

  #send(): void {
    if (this.#closed) return;
    this.#sending ??= this.#sendQueued().finally(() => {
      this.#sending = null;
    });
  }

  /** Sends one message at a time, until none is left or one fails; the next heartbeat retries. */
  async #sendQueued(): Promise<void> {
    for (;;) {
      const [item] = this.#queue;
      if (item !== undefined) {
        if (!(await this.#attempt(item))) return;
        // An overflow during the attempt replaces the queue.
        if (this.#queue[0] === item) this.#queue.shift();
      } else if (this.#heartbeatDue) {
        this.#heartbeatDue = false;
        const seen = Object.fromEntries([...this.#peers].map(([origin, { heartbeat }]) => [origin, heartbeat]));
        this.#recordSent(this.#n + 1);
        if (!(await this.#attempt({ about: 'heartbeat', seen }))) return;
      } else return;
    }
  }

  async #attempt(body: Unnumbered): Promise<boolean> {
    const { cache, origin, log } = this.#parts;
    // A new number for each attempt: the earlier one may be delivered or lost.
    this.#n += 1;
    try {
      await cache.publish(CHANNEL, `${origin} ${JSON.stringify({ ...body, n: this.#n })}`);
      this.#publishFails = false;
      return true;
    } catch (error) {
      if (!this.#publishFails) log.warn({ err: error, about: body.about }, 'invalidation publish failed; retrying');
      this.#publishFails = true;
      return false;
    }
  }

  #recordSent(n: number): void {
    const now = this.#now();
    for (const [old, at] of this.#sent) if (now - at > MAX_STALENESS_MS) this.#sent.delete(old);
    this.#sent.set(n, now);
  }

  #receive(message: string): void {
    const { origin, text } = messageParts(message);
    const received = parseSignal(text) ?? parseNumbered(text);
    if (received === null) return;
    const own = origin === this.#parts.origin;
    if (own && received.about === 'heartbeat') this.#ownUntil = this.#trustedUntil(received.n, this.#ownUntil);
    if (!own) this.#receiveFrom(origin, received);
    this.#evaluate();
  }

  #receiveFrom(origin: string, received: Signal | (Invalidation & { n: number })): void {
    const { n } = received;
    if (received.about === 'closing') {
      if (this.#peers.get(origin)?.last !== n - 1) this.#markMissed();
      this.#peers.delete(origin);
      this.#closedPeers.add(origin);
      return;
    }
    const now = this.#now();
    const peer = this.#peers.get(origin) ?? this.#newPeer(origin);
    if (n !== peer.last + 1) this.#markMissed();
    peer.last = n;
    peer.receivedAt = now;
    if (received.about === 'heartbeat') {
      peer.heartbeat = n;
      peer.until = this.#trustedUntil(received.seen[this.#parts.origin], peer.until);
    } else if (received.about === 'everything') this.#markMissed();
    else this.#local.publish(received);
  }

  /** A new node has not received our heartbeats yet. */
  #newPeer(origin: string): Peer {
    const now = this.#now();
    const peer = { last: 0, heartbeat: 0, receivedAt: now, until: now + MAX_STALENESS_MS };
    this.#peers.set(origin, peer);
    return peer;
  }

  #trustedUntil(heartbeat: number | undefined, until: number): number {
    const sentAt = heartbeat === undefined ? undefined : this.#sent.get(heartbeat);
    return sentAt === undefined ? until : Math.max(until, sentAt + MAX_STALENESS_MS);
  }

  /** Current again after a heartbeat that was sent over the next connection. */
  #interrupted(): void {
    this.#sent.clear();
    this.#ownUntil = Number.NEGATIVE_INFINITY;
    this.#markMissed();
  }

  #markMissed(): void {
    this.#gaps += 1;
    this.#currentUntil = Number.NEGATIVE_INFINITY;
  }

  #evaluate(): void {
    if (this.#closed) return;
    const now = this.#now();
    this.#updatePeers(now);
    let until = this.#ownUntil;
    for (const peer of this.#peers.values()) until = Math.min(until, peer.until);
    if (this.#recoveredGaps === this.#gaps) this.#currentUntil = until;
    else if (now < until) void this.#recover();
  }

  /** Its unsent invalidations are lost with a node that has ended without `closing`. */
  #updatePeers(now: number): void {
    const live = this.#parts.liveNodes?.();
    for (const origin of this.#closedPeers) if (!live?.has(origin)) this.#closedPeers.delete(origin);
    for (const origin of live ?? []) {
      if (origin === this.#parts.origin || this.#closedPeers.has(origin)) continue;
      if (!this.#peers.has(origin)) this.#newPeer(origin);
    }
    // A node that joins is received from before it is listed.
    const unlistedMs = live === undefined ? PEER_LIFE_MS : MAX_STALENESS_MS;
    for (const [origin, { receivedAt }] of this.#peers) {
      if (live?.has(origin) || now - receivedAt < unlistedMs) continue;
      this.#peers.delete(origin);
      this.#markMissed();
    }
  }

  /** Lets the caches drop what may be outdated; then the bus is current again, unless another gap has followed. */
  async #recover(): Promise<void> {
    if (this.#recovering) return;
    this.#recovering = true;
    const gaps = this.#gaps;
    try {
      await Promise.all([...this.#missedListeners].map(async (listener) => listener()));
      this.#recoveredGaps = gaps;
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'caches could not be refreshed; reading from the store until they are');
      return;
    } finally {
      this.#recovering = false;
    }
    this.#evaluate();
  }
}

function parseSignal(text: string): Signal | null {
  try {
    return signal.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

function parseNumbered(text: string): (Invalidation & { n: number }) | null {
  const item = parseInvalidation(text);
  const number = item === null ? undefined : numbered.safeParse(JSON.parse(text)).data;
  return item === null || number === undefined ? null : { ...item, ...number };
}
