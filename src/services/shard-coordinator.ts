import type { Log } from '../domain/log.ts';
import { placeShards } from '../domain/shard-placement.ts';
import type { PeerNode, ShardDirectory, ShardRoute } from '../domain/shards.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import type { Cluster, ClusterNode, ClusterView, MembershipState } from '../store/contract/cluster.ts';
import { type HandOverTiming, pauseFor, ShardHandOver, since } from './shard-hand-over.ts';
import { allShards, ShardStatuses } from './shard-statuses.ts';

/** Opens and closes the shards of this node. */
export interface ShardHost {
  /** Loads what the previous owner has left. Repeated if it throws. */
  open(shards: readonly number[]): Promise<void>;
  /** Ends what depends on the shards, and writes what is left. False, with the shards still open, if that takes long. */
  close(shards: ReadonlySet<number>): Promise<boolean>;
}

export interface CoordinatorTiming extends HandOverTiming {
  /** Interval at which nodes and owners are read; changes that another node announces are read at once. */
  poll: Milliseconds;
  /** The same while no other node is registered, so that none can end without a notice; one that registers announces it. */
  alone: Milliseconds;
  /** How long a request waits for a shard that moves. */
  route: Milliseconds;
}

const defaultTiming: CoordinatorTiming = { poll: 250, alone: 2_000, route: 2_000, requests: 500, retry: 5_000 };

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
  readonly #shards = new ShardStatuses();
  readonly #handOver: ShardHandOver;
  #view: ClusterView = { nodes: [], owners: [], levels: [], leader: false };
  #peers = new Map<Uuid, PeerNode>();
  #liveNodes: ReadonlySet<Uuid>;
  #placement: { key: string; owners: readonly (Uuid | null)[] } = { key: '', owners: [] };
  #unreadable = 0;
  /** Monotonic milliseconds; before all others if the last attempt failed. */
  #readAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;
  #reconciling: Promise<void> | null = null;
  #again = false;
  #opening: Promise<void> | null = null;
  /** Set by `drain`, at the end of the process. */
  #leaving = false;
  #stopped = true;
  #link = '';
  readonly #counts = { opened: 0, fenced: 0 };

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
    this.#handOver = new ShardHandOver({
      ...{ cluster: parts.cluster, close: (shards) => parts.host.close(shards), log: parts.log, timing: this.#timing },
      shards: this.#shards,
      onHandedOver: (shards) => this.#forgetOwners(shards),
      onEnd: () => void this.#reconcileSoon(),
    });
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

  /** Number of shards without a live owner in which a build has written that is newer than that of every live node. */
  get shardsUnreadable(): number {
    return this.#unreadable;
  }

  /** Number of shards without a live owner, and of those that this node owns and has not opened. */
  get shardsNotOpen(): number {
    const live = new Set<Uuid | null>(this.#view.nodes.flatMap(({ id, alive }) => (alive ? [id] : [])));
    const isNotOpen = (shard: number): boolean => {
      const owner = this.#view.owners[shard] ?? null;
      const status = this.#shards.status(shard);
      // A shard that is being handed over is served again soon.
      if (owner === this.#cluster.self) return status === 'absent' || status === 'opening';
      return !live.has(owner) && status !== 'closing';
    };
    return allShards.filter(isNotOpen).length;
  }

  counts(): CoordinatorCounts {
    const { handedOver } = this.#handOver;
    return { open: this.#shards.withStatus('open').length, handedOver, ...this.#counts };
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
    this.#timer = setInterval(() => this.#poll(), this.#timing.poll).unref();
  }

  /** Hands over all shards; resolves when none is left that another node can run, or the time has passed. */
  async drain(timeoutMs: Milliseconds): Promise<void> {
    const until = performance.now() + timeoutMs;
    this.#leaving = true;
    this.#handOver.hurry();
    if (this.#stopped) return;
    await this.#cluster.announce('stopping', this.#link).catch((error: unknown) => {
      this.#log.warn({ err: error }, 'shard coordinator: the drain was not announced to other nodes');
    });
    while (performance.now() < until) {
      await Promise.race([this.#reconcileSoon(), pauseFor(until - performance.now())]);
      const placed = this.#placed();
      if (allShards.every((shard) => this.#shards.status(shard) === 'absent' || placed[shard] === null)) return;
      await Promise.race([this.#handOver.moving ?? this.#shards.changed, pauseFor(this.#timing.poll)]);
    }
  }

  /** Reads no more; the shards of this node stay as they are. Resolves when nothing is being opened or handed over. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearInterval(this.#timer);
    this.#shards.notify();
    await this.#reconciling;
    await Promise.all([this.#opening, this.#handOver.moving]);
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
    const status = this.#shards.status(shard);
    if (status === 'open') return { at: 'here', leave: this.#shards.enter(shard) };
    if (status !== 'absent') return null;
    const owner = this.#view.owners[shard] ?? null;
    const node = owner === null ? undefined : this.#peers.get(owner);
    return node === undefined ? null : { at: 'node', node };
  }

  async #waitForRoute(shard: number): Promise<ShardRoute> {
    const until = performance.now() + this.#timing.route;
    for (;;) {
      const left = until - performance.now();
      if (left <= 0 || this.#stopped) return { at: 'none' };
      await Promise.race([this.#shards.changed, pauseFor(left)]);
      const route = this.#routeNow(shard);
      if (route !== null) return route;
    }
  }

  #poll(): void {
    if (this.#isSettledAlone() && performance.now() - this.#readAt < this.#timing.alone) return;
    void this.#reconcileSoon();
  }

  /** Whether nothing is left to do until another node registers. */
  #isSettledAlone(): boolean {
    const { nodes, leader } = this.#view;
    const isAlone = leader && nodes.every(({ id }) => id === this.#cluster.self);
    return isAlone && allShards.every((shard) => this.#shards.status(shard) === 'open');
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
        this.#readAt = Number.NEGATIVE_INFINITY;
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
    this.#handOver.moveMisplaced(this.#placed());
  }

  /** Reads nodes and owners; again if this node has handed over shards since the reading began. */
  async #read(): Promise<void> {
    for (;;) {
      const before = this.#handOver.ended;
      const readAt = performance.now();
      const view = await this.#cluster.view();
      if (before !== this.#handOver.ended) continue;
      this.#readAt = readAt;
      return this.#apply(view);
    }
  }

  #apply(view: ClusterView): void {
    const { self } = this.#cluster;
    this.#view = view;
    this.#countUnreadable();
    const before = this.#liveNodes;
    this.#liveNodes = new Set([self, ...view.nodes.map(({ id }) => id)]);
    for (const node of before) if (!this.#liveNodes.has(node)) this.#onNodeGone(node);
    this.#peers = new Map(
      view.nodes.flatMap(({ id, link, alive }) =>
        alive && link !== null && id !== self ? [[id, { id, address: link }]] : [],
      ),
    );
    this.#shards.notify();
  }

  #countUnreadable(): void {
    const { owners, levels, nodes } = this.#view;
    const alive = nodes.filter((node) => node.alive);
    const live = new Set<Uuid | null>(alive.map(({ id }) => id));
    const readable = Math.max(0, ...alive.map(({ dataLevel }) => dataLevel));
    const unreadable = allShards.filter((shard) => (levels[shard] ?? 0) > readable && !live.has(owners[shard] ?? null));
    if (unreadable.length === this.#unreadable) return;
    this.#unreadable = unreadable.length;
    this.#log.warn(
      { shards: unreadable, data_level: readable },
      'shard coordinator: shards need a node of a newer build; their tenants are refused until one is alive',
    );
  }

  /**
   * The node that should own each shard: an active one; where none can read the shard, one that an operator drains, so
   * that no shard is without an owner. A node that drains reads its own state here as the others do. Null: none can.
   */
  #placed(): readonly (Uuid | null)[] {
    const { self } = this.#cluster;
    const { nodes, levels } = this.#view;
    const staying = nodes.filter(({ id, alive }) => alive && !(this.#leaving && id === self));
    const key = JSON.stringify([staying.map(({ id, state }) => [id, state]), levels]);
    if (key !== this.#placement.key) {
      const [active, draining] = (['active', 'draining'] satisfies MembershipState[]).map((wanted) =>
        placeShards(
          staying.filter(({ state }) => state === wanted),
          levels,
        ),
      );
      this.#placement = { key, owners: allShards.map((shard) => active?.[shard] ?? draining?.[shard] ?? null) };
    }
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
    const absent = this.#shards.withStatus('absent');
    const owned = absent.filter((shard) => this.#view.owners[shard] === this.#cluster.self);
    if (owned.length === 0 || this.#opening !== null) return;
    this.#shards.set(owned, 'opening');
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
      this.#shards.set(shards, 'open');
      this.#log.info({ shards: shards.length, ms: since(began) }, 'shard coordinator: shards opened');
    } catch (error) {
      this.#shards.set(shards, 'absent');
      this.#log.warn({ err: error, shards: shards.length }, 'shard coordinator: shards not opened; retrying');
      await pauseFor(this.#timing.poll);
    }
  }

  /** The owners that were read before a hand-over are outdated. */
  #forgetOwners(shards: readonly number[]): void {
    const owners = [...this.#view.owners];
    for (const shard of shards) owners[shard] = null;
    this.#view = { ...this.#view, owners };
  }
}

const describe = ({ id, address, build }: ClusterNode) => ({ id, address, build });
