import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { ActiveContext } from '../../operations/cognition/contract.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

// Which parts of the world a sidecar is to be told of, and when. It holds ids alone: what is told is read when it is told.

/** A part of the world: a home, one device, or all of a tenant. */
export interface Scope {
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
}

/** A part about which there is something to think. */
export interface WatchedScope extends Scope {
  key: string;
  /** Contexts about it, oldest first. */
  contexts: Set<Uuid>;
  /** On the process' own clock, as all times here. */
  sentAt: Milliseconds;
  /** How long it took to read when it was told. */
  readMs: Milliseconds;
  /** The world's hash as it was told; null: something other than the world is to be told too. */
  sentHash: string | null;
}

/** The part of the world that a context is about. */
export const scopeOf = ({ tenantId, homeId, deviceId, kind }: ActiveContext): Scope =>
  kind === 'device' ? { tenantId, homeId: null, deviceId } : { tenantId, homeId, deviceId: null };

const scopeKeyOf = ({ tenantId, homeId, deviceId }: Scope): string => deviceId ?? homeId ?? tenantId;

/** Parts of the world that wait for their turn: the tenants take turns, and of each the part that waits longest comes first. */
class TenantFairQueue {
  private readonly tenants = new Map<Uuid, Set<WatchedScope>>();

  /** False where it waits already. */
  add(part: WatchedScope): boolean {
    let own = this.tenants.get(part.tenantId);
    if (own === undefined) {
      own = new Set();
      this.tenants.set(part.tenantId, own);
    }
    if (own.has(part)) return false;
    own.add(part);
    return true;
  }

  get size(): number {
    let size = 0;
    for (const own of this.tenants.values()) size += own.size;
    return size;
  }

  has = (part: WatchedScope): boolean => this.tenants.get(part.tenantId)?.has(part) === true;

  delete(part: WatchedScope): void {
    const own = this.tenants.get(part.tenantId);
    if (!own?.delete(part)) return;
    this.tenants.delete(part.tenantId);
    if (own.size > 0) this.tenants.set(part.tenantId, own);
  }

  *[Symbol.iterator](): Generator<WatchedScope> {
    for (const own of this.tenants.values()) yield* own;
  }
}

function findDue(waiting: Iterable<WatchedScope>, isDue: (one: WatchedScope) => boolean): WatchedScope | undefined {
  for (const one of waiting) if (isDue(one)) return one;
  return undefined;
}

/** Of the time that passes, one part in so many may go into reading what was asked about, and what only changed. */
const REQUESTED_COST_FACTOR = 4;
const CHANGED_COST_FACTOR = 20;
const MAX_COST_MS: Milliseconds = 1_000;

export class WorldUpdateScheduler {
  private readonly limits: SidecarLimits;
  private readonly scopes = new Map<string, WatchedScope>();
  private readonly contexts = new Map<Uuid, { part: WatchedScope; kind: ActiveContext['kind'] }>();
  /** There is something new to think about. */
  private readonly requested = new TenantFairQueue();
  private readonly changed = new TenantFairQueue();
  /** Homes about which there is nothing to think, by their tenants. */
  private readonly idleHomes = new Map<Uuid, Uuid>();
  private nextIdleAt: Milliseconds = 0;
  /** As the last `pause` answered. */
  private pausedUntil = Number.POSITIVE_INFINITY;

  constructor(limits: SidecarLimits) {
    this.limits = limits;
  }

  get contextCount(): number {
    return this.contexts.size;
  }

  sizes(): CollectionSizes {
    return {
      sidecar_parts: this.scopes.size,
      sidecar_contexts: this.contexts.size,
      sidecar_parts_asked: this.requested.size,
      sidecar_parts_changed: this.changed.size,
      sidecar_quiet_homes: this.idleHomes.size,
    };
  }

  hasContext = (contextId: Uuid): boolean => this.contexts.has(contextId);

  /** The context waits for the sidecar. */
  openContext(context: ActiveContext): void {
    const part = scopeOf(context);
    const key = scopeKeyOf(part);
    let watched = this.scopes.get(key);
    if (watched === undefined) {
      watched = { ...part, key, contexts: new Set(), sentAt: 0, readMs: 0, sentHash: null };
      this.scopes.set(key, watched);
    }
    // That nothing waits there would say that the context is over.
    if (part.homeId !== null) this.idleHomes.delete(part.homeId);
    watched.contexts.add(context.id);
    this.contexts.set(context.id, { part: watched, kind: context.kind });
    this.requestUpdate(watched);
  }

  private requestUpdate(watched: WatchedScope): void {
    watched.sentHash = null;
    this.requested.add(watched);
  }

  /** Whether nodes of the context wait for people before they run. */
  isProposalOnly = (contextId: Uuid): boolean => this.contexts.get(contextId)?.kind === 'observation';

  /** It does not wait any more; those that there was no room for take its place. */
  closeContext(contextId: Uuid): void {
    const watched = this.contexts.get(contextId)?.part;
    if (watched === undefined) return;
    this.contexts.delete(contextId);
    watched.contexts.delete(contextId);
    if (watched.contexts.size === 0) {
      this.scopes.delete(watched.key);
      this.requested.delete(watched);
      this.changed.delete(watched);
    } else if (watched.contexts.size >= this.limits.maxContextsPerUpdate) this.requestUpdate(watched);
  }

  /**
   * Something of the device changed. Called for every report of every device: it does next to nothing. True where there is
   * something to tell sooner than before.
   */
  markDeviceChanged(tenantId: Uuid, deviceId: Uuid, homeId: Uuid | null): boolean {
    const { scopes, changed, idleHomes } = this;
    let at = Number.POSITIVE_INFINITY;
    const home = homeId === null ? undefined : scopes.get(homeId);
    if (scopes.size > 0)
      for (const part of [scopes.get(deviceId), scopes.get(tenantId), home])
        if (part && changed.add(part)) at = Math.min(at, this.changedDueAt(part));
    if (homeId !== null && home === undefined && idleHomes.size < this.limits.maxIdleHomes) {
      if (idleHomes.size === 0) at = Math.min(at, this.nextIdleAt);
      idleHomes.set(homeId, tenantId);
    }
    return at < this.pausedUntil;
  }

  /** A device may have left its home: every part of its tenant's world may be another. */
  markTenantChanged(tenantId: Uuid): void {
    for (const part of this.scopes.values()) if (part.tenantId === tenantId) this.changed.add(part);
  }

  /** The part that is to be told now, if any; it is told when this answers it. */
  takeNext(now: Milliseconds): WatchedScope | null {
    const watched =
      findDue(this.requested, (one) => now >= this.requestedDueAt(one)) ??
      findDue(this.changed, (one) => now >= this.changedDueAt(one));
    if (watched === undefined) return null;
    this.requested.delete(watched);
    this.changed.delete(watched);
    watched.sentAt = now;
    return watched;
  }

  // At once, or at most so often; what is large takes no more than its share of the time, whoever asks about it.
  private requestedDueAt = ({ sentAt, readMs }: WatchedScope): Milliseconds =>
    readMs === 0 ? 0 : sentAt + REQUESTED_COST_FACTOR * readMs;
  private changedDueAt = ({ sentAt, readMs }: WatchedScope): Milliseconds =>
    sentAt + Math.max(this.limits.coalesceMs, CHANGED_COST_FACTOR * readMs);

  /** It is told with a world of this hash; what was asked about it since is still to be told. */
  markSent(watched: WatchedScope, hash: string): void {
    if (!this.requested.has(watched)) watched.sentHash = hash;
  }

  /** It could not be told: it is tried again a little later. */
  reschedule(watched: WatchedScope, now: Milliseconds): void {
    if (this.scopes.get(watched.key) !== watched) return;
    watched.sentHash = null;
    watched.sentAt = now;
    this.changed.add(watched);
  }

  /** A home about which there is nothing to think, if it is time to tell of one. */
  takeNextIdleHome(now: Milliseconds): Scope | null {
    if (now < this.nextIdleAt) return null;
    for (const [homeId, tenantId] of this.idleHomes) {
      this.idleHomes.delete(homeId);
      this.nextIdleAt = now + this.limits.idleHomeIntervalMs;
      return { tenantId, homeId, deviceId: null };
    }
    return null;
  }

  /** The home took so long to read. */
  recordIdleReadTime(cost: Milliseconds): void {
    this.nextIdleAt += CHANGED_COST_FACTOR * Math.min(cost, MAX_COST_MS);
  }

  /** The part took so long to read. */
  recordReadTime(watched: WatchedScope, cost: Milliseconds): void {
    watched.readMs = Math.min(cost, MAX_COST_MS);
  }

  /** How long nothing is to be told unless something happens; null: for ever. */
  delayUntilNext(now: Milliseconds): Milliseconds | null {
    let at = this.idleHomes.size > 0 ? this.nextIdleAt : Number.POSITIVE_INFINITY;
    for (const one of this.requested) at = Math.min(at, this.requestedDueAt(one));
    for (const one of this.changed) at = Math.min(at, this.changedDueAt(one));
    this.pausedUntil = at;
    return at === Number.POSITIVE_INFINITY ? null : Math.max(0, at - now);
  }
}
