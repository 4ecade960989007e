import type { Log } from '../domain/log.ts';
import { placeShards } from '../domain/shard-placement.ts';
import { type PeerNode, SHARD_COUNT, type ShardDirectory, type ShardRoute } from '../domain/shards.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import type { Cluster, ClusterNode, ClusterView, MembershipState } from '../store/contract/cluster.ts';

/** What runs the shards of this node. */
export interface ShardHost {
  /** Loads what the previous owner has left. Repeated if it throws. */
  open(shards: readonly number[]): Promise<void>;
  /** Ends what depends on the shards, and writes what is left. False, with the shards still open, if that takes long. */
  close(shards: ReadonlySet<number>): Promise<boolean>;
}

/**
 * A shard on this node: `absent`, or owned and being loaded (`opening`), in use (`open`), or being handed over
 * (`closing`).
 */
type ShardStatus = 'absent' | 'opening' | 'open' | 'closing';

export interface CoordinatorTiming {
  /** Interval at which nodes and owners are read; changes that another node announces are read at once. */
  poll: Milliseconds;
  /** How long a request waits for a shard that moves. */
  route: Milliseconds;
  /** How long a shard waits for its requests in progress before it is handed over. */
  requests: Milliseconds;
  /** Pause after a shard that could not be closed. */
  retry: Milliseconds;
}

const defaultTiming: CoordinatorTiming = { poll: 250, route: 2_000, requests: 500, retry: 5_000 };
/** A shard that stays busy is tried again after up to this many times `retry`. */
const MAX_RETRY_FACTOR = 16;
/** Shards that are closed and handed over together. */
const MOVED_TOGETHER = 16;

const allShards: readonly number[] = Array.from({ length: SHARD_COUNT }, (_, shard) => shard);

/** Counts since the start of the process, for metrics. */
export interface CoordinatorCounts {
  /** Shards that this node runs. */
  open: number;
  /** Shards opened since the start. */
  opened: number;
  /** Shards handed over to other nodes. */
  handedOver: number;
  /** Nodes that this node fenced. */
  fenced: number;
}

/**
 * Runs the shards that this node owns, takes over those of nodes that have ended, hands over those that another
 * node should own by rendezvous hashing, and knows the owner of every shard. What may act is decided by the database
 * alone: the coordinator may act late, but two coordinators never run the same shard.
 */
export class ShardCoordinator implements ShardDirectory {
  readonly #cluster: Cluster;
  readonly #host: ShardHost;
  readonly #log: Log;
  readonly #timing: CoordinatorTiming;
  readonly #onNodeGone: (node: Uuid) => void;
  readonly #status: ShardStatus[] = allShards.map(() => 'absent');
  readonly #inProgress: number[] = allShards.map(() => 0);
  #view: ClusterView = { nodes: [], owners: [], leader: false };
  #peers = new Map<Uuid, PeerNode>();
  #liveNodes: ReadonlySet<Uuid>;
  #placement: { nodes: string; owners: readonly Uuid[] } = { nodes: '', owners: [] };
  #changed = Promise.withResolvers<void>();
  #timer: NodeJS.Timeout | null = null;
  #reconciling: Promise<void> | null = null;
  #again = false;
  #opening: Promise<void> | null = null;
  #moving: Promise<void> | null = null;
  /** Monotonic milliseconds before which a busy shard is not closed again. */
  readonly #moveAfter = new Map<number, number>();
  /** Shards that could not be closed, with the number of attempts. */
  readonly #busy = new Map<number, number>();
  /** Set by `drain`, at the end of the process. */
  #leaving = false;
  #stopped = true;
  #link = '';
  /** Number of attempts to hand over shards that have ended, however they ended. */
  #handOvers = 0;
  readonly #counts = { opened: 0, handedOver: 0, fenced: 0 };

  constructor(parts: {
    cluster: Cluster;
    host: ShardHost;
    log: Log;
    timing?: Partial<CoordinatorTiming>;
    /** Called for each node that has left or was fenced. */
    onNodeGone?(node: Uuid): void;
  }) {
    this.#onNodeGone = parts.onNodeGone ?? (() => {});
    this.#cluster = parts.cluster;
    this.#liveNodes = new Set([parts.cluster.self]);
    this.#host = parts.host;
    this.#log = parts.log;
    this.#timing = { ...defaultTiming, ...parts.timing };
    parts.cluster.onChange(() => void this.#reconcileSoon());
  }

  /** True on one node at a time, for work that must not be done twice. */
  get leader(): boolean {
    return !this.#stopped && this.#view.leader;
  }

  /** The nodes and owners as this node knows them. */
  get view(): ClusterView {
    return this.#view;
  }

  /** The nodes that may act: this one, and those that were not fenced, whether they can be reached or not. */
  get liveNodes(): ReadonlySet<Uuid> {
    return this.#liveNodes;
  }

  /** Number of live nodes that operators drain. */
  get drainingNodes(): number {
    return this.#view.nodes.filter(({ alive, state }) => alive && state === 'draining').length;
  }

  /** Number of shards without a live owner, and of those that this node owns and has not opened. */
  get shardsNotOpen(): number {
    const live = new Set<Uuid | null>(this.#view.nodes.flatMap(({ id, alive }) => (alive ? [id] : [])));
    const isNotOpen = (shard: number): boolean => {
      const owner = this.#view.owners[shard] ?? null;
      const status = this.#status[shard];
      // A shard that is being handed over is served again soon.
      if (owner === this.#cluster.self) return status === 'absent' || status === 'opening';
      return !live.has(owner) && status !== 'closing';
    };
    return allShards.filter(isNotOpen).length;
  }

  counts(): CoordinatorCounts {
    return { open: this.#status.filter((status) => status === 'open').length, ...this.#counts };
  }

  /**
   * Makes the node active. `link`: address of its listener for other nodes. Resolves when the shards that it got first
   * are open; a node among others gets its part of theirs afterwards, one after another.
   */
  async start(link: string): Promise<void> {
    this.#link = link;
    if (this.#leaving) return;
    this.#stopped = false;
    await this.#cluster.announce('active', link);
    await this.#reconcileSoon();
    await this.#opening;
    this.#timer = setInterval(() => void this.#reconcileSoon(), this.#timing.poll).unref();
  }

  /** Hands over all shards; resolves when none is left, or no other node is active, or the time has passed. */
  async drain(timeoutMs: Milliseconds): Promise<void> {
    const until = performance.now() + timeoutMs;
    this.#leaving = true;
    this.#moveAfter.clear();
    if (this.#stopped) return;
    await this.#cluster.announce('stopping', this.#link).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'shard coordinator: the drain was not announced to other nodes');
    });
    while (performance.now() < until) {
      await Promise.race([this.#reconcileSoon(), pauseFor(until - performance.now())]);
      if (this.#status.every((status) => status === 'absent') || this.#candidates().length === 0) return;
      await Promise.race([this.#moving ?? this.#changed.promise, pauseFor(this.#timing.poll)]);
    }
  }

  /** Reads no more; the shards of this node stay as they are. Resolves when nothing is being opened or handed over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearInterval(this.#timer);
    this.#notifyChanged();
    await this.#reconciling;
    await Promise.all([this.#opening, this.#moving]);
  }

  // ShardDirectory

  enter(shard: number): ShardRoute | Promise<ShardRoute> {
    return this.#routeNow(shard) ?? this.#waitForRoute(shard);
  }

  refresh(): Promise<void> {
    return this.#reconcileSoon();
  }

  /** Null while the shard moves. */
  #routeNow(shard: number): ShardRoute | null {
    if (this.#status[shard] === 'open') return { at: 'here', leave: this.#countRequest(shard) };
    if (this.#status[shard] !== 'absent') return null;
    const owner = this.#view.owners[shard] ?? null;
    const node = owner === null ? undefined : this.#peers.get(owner);
    return node === undefined ? null : { at: 'node', node };
  }

  async #waitForRoute(shard: number): Promise<ShardRoute> {
    const until = performance.now() + this.#timing.route;
    for (;;) {
      const left = until - performance.now();
      if (left <= 0 || this.#stopped) return { at: 'none' };
      await Promise.race([this.#changed.promise, pauseFor(left)]);
      const route = this.#routeNow(shard);
      if (route !== null) return route;
    }
  }

  #countRequest(shard: number): () => void {
    let left = false;
    this.#inProgress[shard] = (this.#inProgress[shard] ?? 0) + 1;
    return () => {
      if (left) return;
      left = true;
      this.#inProgress[shard] = (this.#inProgress[shard] ?? 1) - 1;
      if (this.#inProgress[shard] === 0 && this.#status[shard] === 'closing') this.#notifyChanged();
    };
  }

  #notifyChanged(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }

  #setStatus(shards: Iterable<number>, status: ShardStatus): void {
    for (const shard of shards) this.#status[shard] = status;
    this.#notifyChanged();
  }

  /** Joins a run that has not begun to read; another one follows a run that has. */
  #reconcileSoon(): Promise<void> {
    if (this.#reconciling !== null) {
      this.#again = true;
      return this.#reconciling;
    }
    this.#reconciling = this.#reconcileUntilCurrent().finally(() => {
      this.#reconciling = null;
    });
    return this.#reconciling;
  }

  async #reconcileUntilCurrent(): Promise<void> {
    do {
      this.#again = false;
      if (this.#stopped) return;
      try {
        await this.#reconcile();
      } catch (error) {
        this.#log.warn({ err: error }, 'shard coordinator: nodes and owners not read; retrying');
        return;
      }
    } while (this.#again);
  }

  async #reconcile(): Promise<void> {
    await this.#read();
    const dead = this.#view.nodes.filter(({ alive }) => !alive);
    if (dead.length > 0) {
      this.#log.warn({ nodes: dead.map(describe) }, 'shard coordinator: nodes have ended; taking over their shards');
      await this.#cluster.fence(dead.map(({ id }) => id));
      this.#counts.fenced += dead.length;
      await this.#read();
    }
    const claimed = this.#stopped ? [] : this.#claimable();
    if (claimed.length > 0) {
      await this.#cluster.claim(claimed);
      await this.#read();
    }
    if (this.#stopped) return;
    this.#openOwned();
    this.#moveNext();
  }

  /** Reads nodes and owners; again if this node has handed over shards since the reading began. */
  async #read(): Promise<void> {
    for (;;) {
      const before = this.#handOvers;
      const view = await this.#cluster.view();
      if (before === this.#handOvers) return this.#apply(view);
    }
  }

  #apply(view: ClusterView): void {
    const { self } = this.#cluster;
    this.#view = view;
    const before = this.#liveNodes;
    this.#liveNodes = new Set([self, ...view.nodes.map(({ id }) => id)]);
    for (const node of before) if (!this.#liveNodes.has(node)) this.#onNodeGone(node);
    this.#peers = new Map(
      view.nodes.flatMap(({ id, link, alive }) =>
        alive && link !== null && id !== self ? [[id, { id, address: link }]] : [],
      ),
    );
    this.#notifyChanged();
  }

  /**
   * The active nodes; where none is left, those that an operator drains, so that no shard is without an owner. A node
   * that drains reads its own state here as the others do.
   */
  #candidates(): Uuid[] {
    const { self } = this.#cluster;
    const staying = this.#view.nodes.filter(({ id, alive }) => alive && !(this.#leaving && id === self));
    const inState = (wanted: MembershipState) => staying.filter(({ state }) => state === wanted).map(({ id }) => id);
    const active = inState('active');
    return active.length > 0 ? active : inState('draining');
  }

  /** The node that should own each shard; empty if no node is active. */
  #placed(): readonly Uuid[] {
    const nodes = this.#candidates();
    const key = nodes.join();
    if (key !== this.#placement.nodes) this.#placement = { nodes: key, owners: placeShards(nodes) };
    return this.#placement.owners;
  }

  /** Shards without an owner that this node should own. */
  #claimable(): number[] {
    const placed = this.#placed();
    const known = new Set<Uuid | null>(this.#view.nodes.map(({ id }) => id));
    return allShards.filter(
      (shard) => placed[shard] === this.#cluster.self && !known.has(this.#view.owners[shard] ?? null),
    );
  }

  #openOwned(): void {
    const owned = allShards.filter(
      (shard) => this.#view.owners[shard] === this.#cluster.self && this.#status[shard] === 'absent',
    );
    if (owned.length === 0 || this.#opening !== null) return;
    this.#setStatus(owned, 'opening');
    this.#opening = this.#open(owned).finally(() => {
      this.#opening = null;
      this.#again = true;
      void this.#reconcileSoon();
    });
  }

  async #open(shards: readonly number[]): Promise<void> {
    const began = performance.now();
    try {
      await this.#host.open(shards);
      this.#counts.opened += shards.length;
      this.#setStatus(shards, 'open');
      this.#log.info({ shards: shards.length, ms: since(began) }, 'shard coordinator: shards opened');
    } catch (error) {
      this.#setStatus(shards, 'absent');
      this.#log.warn({ err: error, shards: shards.length }, 'shard coordinator: shards not opened; retrying');
      await pauseFor(this.#timing.poll);
    }
  }

  #moveNext(): void {
    if (this.#moving !== null) return;
    const placed = this.#placed();
    const now = performance.now();
    const misplaced = allShards.filter(
      (shard) =>
        this.#status[shard] === 'open' &&
        placed[shard] !== undefined &&
        placed[shard] !== this.#cluster.self &&
        (this.#moveAfter.get(shard) ?? 0) <= now,
    );
    const [first] = misplaced;
    if (first === undefined) return;
    const quiet = misplaced.filter((shard) => !this.#busy.has(shard));
    const moved = quiet.length > 0 ? quiet.slice(0, MOVED_TOGETHER) : [first];
    this.#moving = this.#move(moved, placed).finally(() => {
      this.#moving = null;
      void this.#reconcileSoon();
    });
  }

  async #move(shards: readonly number[], placed: readonly Uuid[]): Promise<void> {
    this.#setStatus(shards, 'closing');
    const idle = await this.#whenRequestsEnd(shards);
    this.#keepOpen(shards.filter((shard) => !idle.includes(shard)));
    if (idle.length > 0 && !(await this.#handOver(idle, placed))) this.#keepOpen(idle);
  }

  /** The shards are used again; each of them is tried alone the next time, as one of them has kept the others. */
  #keepOpen(shards: readonly number[]): void {
    if (shards.length === 0) return;
    const now = performance.now();
    for (const shard of shards) {
      const attempts = this.#busy.get(shard) ?? 0;
      this.#busy.set(shard, attempts + 1);
      const factor = attempts === 0 ? 0 : Math.min(2 ** (attempts - 1), MAX_RETRY_FACTOR);
      this.#moveAfter.set(shard, now + (this.#leaving ? this.#timing.poll : factor * this.#timing.retry));
    }
    this.#setStatus(shards, 'open');
    this.#log.warn({ shards }, 'shard coordinator: shards are busy; handing them over later');
  }

  /** False if the shards could not be closed. */
  async #handOver(shards: readonly number[], placed: readonly Uuid[]): Promise<boolean> {
    const began = performance.now();
    try {
      if (!(await this.#host.close(new Set(shards)))) return false;
      for (const [to, ofNode] of Map.groupBy(shards, (shard) => placed[shard] as Uuid)) {
        await this.#cluster.handOver(ofNode, to);
        this.#counts.handedOver += ofNode.length;
      }
      this.#log.info({ shards: shards.length, ms: since(began) }, 'shard coordinator: shards handed over');
    } catch (error) {
      // A shard that is still this node's is opened again.
      this.#log.warn({ err: error, shards: shards.length }, 'shard coordinator: shards not handed over');
    }
    this.#handOvers += 1;
    // The owners that were read before are outdated.
    const owners = [...this.#view.owners];
    for (const shard of shards) {
      owners[shard] = null;
      this.#moveAfter.delete(shard);
      this.#busy.delete(shard);
    }
    this.#view = { ...this.#view, owners };
    this.#setStatus(shards, 'absent');
    return true;
  }

  /** The shards without requests in progress, once that is all of them, or after a time. */
  async #whenRequestsEnd(shards: readonly number[]): Promise<number[]> {
    const until = performance.now() + this.#timing.requests;
    for (;;) {
      const idle = shards.filter((shard) => this.#inProgress[shard] === 0);
      const left = until - performance.now();
      if (idle.length === shards.length || left <= 0) return idle;
      await Promise.race([this.#changed.promise, pauseFor(left)]);
    }
  }
}

const describe = ({ id, address, build }: ClusterNode) => ({ id, address, build });

const since = (began: number): number => Math.round(performance.now() - began);

const pauseFor = (ms: Milliseconds): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, Math.max(0, ms)).unref();
  });
