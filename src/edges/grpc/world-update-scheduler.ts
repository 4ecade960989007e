import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { ActiveContext } from '../../operations/cognition/contract.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

/** The scope of a perception update: a home, one device, or a whole tenant. */
export interface PerceptionScope {
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
}

/** A scope with active contexts. */
export interface WatchedScope extends PerceptionScope {
  key: string;
  /** Oldest first. */
  contexts: Set<Uuid>;
  /** Monotonic clock (`performance.now()`), like all times here. */
  sentAt: Milliseconds;
  /** Duration of the last read. */
  readMs: Milliseconds;
  /** The world hash of the last update; null forces an update even if the world is unchanged. */
  sentHash: string | null;
}

export const scopeOf = ({ tenantId, homeId, deviceId, kind }: ActiveContext): PerceptionScope =>
  kind === 'device' ? { tenantId, homeId: null, deviceId } : { tenantId, homeId, deviceId: null };

const scopeKeyOf = ({ tenantId, homeId, deviceId }: PerceptionScope): string => deviceId ?? homeId ?? tenantId;

/** A queue of scopes that is fair to tenants: round-robin over tenants, first in, first out within a tenant. */
class TenantFairQueue {
  readonly #tenants = new Map<Uuid, Set<WatchedScope>>();

  /** False if the scope is queued already. */
  add(scope: WatchedScope): boolean {
    let queued = this.#tenants.get(scope.tenantId);
    if (queued === undefined) {
      queued = new Set();
      this.#tenants.set(scope.tenantId, queued);
    }
    if (queued.has(scope)) return false;
    queued.add(scope);
    return true;
  }

  get size(): number {
    let size = 0;
    for (const queued of this.#tenants.values()) size += queued.size;
    return size;
  }

  has = (scope: WatchedScope): boolean => this.#tenants.get(scope.tenantId)?.has(scope) === true;

  /** Moves the tenant to the end of the round. */
  delete(scope: WatchedScope): void {
    const queued = this.#tenants.get(scope.tenantId);
    if (!queued?.delete(scope)) return;
    this.#tenants.delete(scope.tenantId);
    if (queued.size > 0) this.#tenants.set(scope.tenantId, queued);
  }

  *[Symbol.iterator](): Generator<WatchedScope> {
    for (const queued of this.#tenants.values()) yield* queued;
  }
}

function findDue(queue: Iterable<WatchedScope>, isDue: (scope: WatchedScope) => boolean): WatchedScope | undefined {
  for (const scope of queue) if (isDue(scope)) return scope;
  return undefined;
}

/**
 * Pause between two reads of a scope as a multiple of its read time: for scopes with a new context, and for changed
 * scopes.
 */
const REQUESTED_COST_FACTOR = 4;
const CHANGED_COST_FACTOR = 20;
const MAX_COST_MS: Milliseconds = 1_000;

/**
 * Schedules perception updates: decides which scope is sent next and when, within rate limits that depend on the read
 * time of a scope. It holds ids only; the sender reads the data when an update is due.
 */
export class WorldUpdateScheduler {
  readonly #limits: SidecarLimits;
  readonly #scopes = new Map<string, WatchedScope>();
  readonly #contexts = new Map<Uuid, { watched: WatchedScope; kind: ActiveContext['kind'] }>();
  /** Scopes with a new context. */
  readonly #requested = new TenantFairQueue();
  /** Scopes whose devices changed. */
  readonly #changed = new TenantFairQueue();
  /** Changed homes without active contexts → their tenants. */
  readonly #idleHomes = new Map<Uuid, Uuid>();
  #nextIdleAt: Milliseconds = 0;
  /** When the delay that `delayUntilNext` last returned ends. */
  #pausedUntil = Number.POSITIVE_INFINITY;

  constructor(limits: SidecarLimits) {
    this.#limits = limits;
  }

  get contextCount(): number {
    return this.#contexts.size;
  }

  sizes(): CollectionSizes {
    return {
      sidecar_parts: this.#scopes.size,
      sidecar_contexts: this.#contexts.size,
      sidecar_parts_asked: this.#requested.size,
      sidecar_parts_changed: this.#changed.size,
      sidecar_quiet_homes: this.#idleHomes.size,
    };
  }

  hasContext = (contextId: Uuid): boolean => this.#contexts.has(contextId);

  /** Registers a context that waits for the sidecar. */
  openContext(context: ActiveContext): void {
    const scope = scopeOf(context);
    const key = scopeKeyOf(scope);
    let watched = this.#scopes.get(key);
    if (watched === undefined) {
      watched = { ...scope, key, contexts: new Set(), sentAt: 0, readMs: 0, sentHash: null };
      this.#scopes.set(key, watched);
    }
    // An update without contexts means that the context has ended.
    if (scope.homeId !== null) this.#idleHomes.delete(scope.homeId);
    watched.contexts.add(context.id);
    this.#contexts.set(context.id, { watched, kind: context.kind });
    this.#requestUpdate(watched);
  }

  #requestUpdate(watched: WatchedScope): void {
    watched.sentHash = null;
    this.#requested.add(watched);
  }

  /** True if the nodes of the context run only after a user accepts them. */
  isProposalOnly = (contextId: Uuid): boolean => this.#contexts.get(contextId)?.kind === 'observation';

  /** Removes a context. If the scope has more contexts than fit into one update, the remaining ones are sent. */
  closeContext(contextId: Uuid): void {
    const watched = this.#contexts.get(contextId)?.watched;
    if (watched === undefined) return;
    this.#contexts.delete(contextId);
    watched.contexts.delete(contextId);
    if (watched.contexts.size === 0) {
      this.#scopes.delete(watched.key);
      this.#requested.delete(watched);
      this.#changed.delete(watched);
    } else if (watched.contexts.size >= this.#limits.maxContextsPerUpdate) this.#requestUpdate(watched);
  }

  /**
   * Marks the scopes of a device as changed. Hot path: called for every report of every device. True if an update is
   * now due earlier than the last returned delay.
   */
  markDeviceChanged(tenantId: Uuid, deviceId: Uuid, homeId: Uuid | null): boolean {
    const scopes = this.#scopes;
    const idleHomes = this.#idleHomes;
    let at = Number.POSITIVE_INFINITY;
    const home = homeId === null ? undefined : scopes.get(homeId);
    if (scopes.size > 0)
      for (const scope of [scopes.get(deviceId), scopes.get(tenantId), home])
        if (scope && this.#changed.add(scope)) at = Math.min(at, this.#changedDueAt(scope));
    if (homeId !== null && home === undefined && idleHomes.size < this.#limits.maxIdleHomes) {
      if (idleHomes.size === 0) at = Math.min(at, this.#nextIdleAt);
      idleHomes.set(homeId, tenantId);
    }
    return at < this.#pausedUntil;
  }

  /** Marks every scope of a tenant as changed, when a device may have left its home. */
  markTenantChanged(tenantId: Uuid): void {
    for (const scope of this.#scopes.values()) if (scope.tenantId === tenantId) this.#changed.add(scope);
  }

  /** Takes the scope that is due now, if any, and counts it as sent. */
  takeNext(now: Milliseconds): WatchedScope | null {
    const watched =
      findDue(this.#requested, (scope) => now >= this.#requestedDueAt(scope)) ??
      findDue(this.#changed, (scope) => now >= this.#changedDueAt(scope));
    if (watched === undefined) return null;
    this.#requested.delete(watched);
    this.#changed.delete(watched);
    watched.sentAt = now;
    return watched;
  }

  // A scope that is expensive to read is limited to a fixed share of the time, even when new contexts keep arriving.
  #requestedDueAt = ({ sentAt, readMs }: WatchedScope): Milliseconds =>
    readMs === 0 ? 0 : sentAt + REQUESTED_COST_FACTOR * readMs;
  #changedDueAt = ({ sentAt, readMs }: WatchedScope): Milliseconds =>
    sentAt + Math.max(this.#limits.coalesceMs, CHANGED_COST_FACTOR * readMs);

  /** Records the sent hash, unless a new context requested another update since. */
  markSent(watched: WatchedScope, hash: string): void {
    if (!this.#requested.has(watched)) watched.sentHash = hash;
  }

  /** Schedules another attempt after a failed update. */
  reschedule(watched: WatchedScope, now: Milliseconds): void {
    if (this.#scopes.get(watched.key) !== watched) return;
    watched.sentHash = null;
    watched.sentAt = now;
    this.#changed.add(watched);
  }

  /** The next changed home without active contexts, if one is due. */
  takeNextIdleHome(now: Milliseconds): PerceptionScope | null {
    if (now < this.#nextIdleAt) return null;
    for (const [homeId, tenantId] of this.#idleHomes) {
      this.#idleHomes.delete(homeId);
      this.#nextIdleAt = now + this.#limits.idleHomeIntervalMs;
      return { tenantId, homeId, deviceId: null };
    }
    return null;
  }

  recordIdleReadTime(readMs: Milliseconds): void {
    this.#nextIdleAt += CHANGED_COST_FACTOR * Math.min(readMs, MAX_COST_MS);
  }

  recordReadTime(watched: WatchedScope, readMs: Milliseconds): void {
    watched.readMs = Math.min(readMs, MAX_COST_MS);
  }

  /** Time until the next update is due, if nothing changes; null: no update is scheduled. */
  delayUntilNext(now: Milliseconds): Milliseconds | null {
    let at = this.#idleHomes.size > 0 ? this.#nextIdleAt : Number.POSITIVE_INFINITY;
    for (const scope of this.#requested) at = Math.min(at, this.#requestedDueAt(scope));
    for (const scope of this.#changed) at = Math.min(at, this.#changedDueAt(scope));
    this.#pausedUntil = at;
    return at === Number.POSITIVE_INFINITY ? null : Math.max(0, at - now);
  }
}
