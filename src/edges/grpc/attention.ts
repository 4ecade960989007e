import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { ActiveContext } from '../../operations/cognition/contract.ts';
import type { SidecarLimits } from './limits.ts';

// Which parts of the world a sidecar is to be told of, and when. It holds ids alone: what is told is read when it is told.

/** A part of the world: a home, one device, or all of a tenant. */
export interface Part {
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
}

/** A part about which there is something to think. */
export interface Watched extends Part {
  key: string;
  /** Contexts about it, oldest first. */
  contexts: Set<Uuid>;
  /** On the process' own clock, as all times here. */
  toldAt: Milliseconds;
  /** How long it took to read when it was told. */
  cost: Milliseconds;
  /** The world's hash as it was told; null: something other than the world is to be told too. */
  told: string | null;
}

/** The part of the world that a context is about. */
export const partOf = ({ tenantId, homeId, deviceId, kind }: ActiveContext): Part =>
  kind === 'device' ? { tenantId, homeId: null, deviceId } : { tenantId, homeId, deviceId: null };

const keyOf = ({ tenantId, homeId, deviceId }: Part): string => deviceId ?? homeId ?? tenantId;

/** Parts of the world that wait for their turn: the tenants take turns, and of each the part that waits longest comes first. */
class Waiting {
  private readonly tenants = new Map<Uuid, Set<Watched>>();

  /** False where it waits already. */
  add(part: Watched): boolean {
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

  has = (part: Watched): boolean => this.tenants.get(part.tenantId)?.has(part) === true;

  delete(part: Watched): void {
    const own = this.tenants.get(part.tenantId);
    if (!own?.delete(part)) return;
    this.tenants.delete(part.tenantId);
    if (own.size > 0) this.tenants.set(part.tenantId, own);
  }

  *[Symbol.iterator](): Generator<Watched> {
    for (const own of this.tenants.values()) yield* own;
  }
}

function first(waiting: Iterable<Watched>, isDue: (one: Watched) => boolean): Watched | undefined {
  for (const one of waiting) if (isDue(one)) return one;
  return undefined;
}

/** Of the time that passes, one part in so many may go into reading what was asked about, and what only changed. */
const ASKED_SHARE = 4;
const CHANGED_SHARE = 20;
const MOST_COST_MS: Milliseconds = 1_000;

export class Attention {
  private readonly limits: SidecarLimits;
  private readonly parts = new Map<string, Watched>();
  private readonly contexts = new Map<Uuid, { part: Watched; kind: ActiveContext['kind'] }>();
  /** There is something new to think about. */
  private readonly asked = new Waiting();
  private readonly changed = new Waiting();
  /** Homes about which there is nothing to think, by their tenants. */
  private readonly quiet = new Map<Uuid, Uuid>();
  private quietAt: Milliseconds = 0;
  /** As the last `pause` answered. */
  private pausedUntil = Number.POSITIVE_INFINITY;

  constructor(limits: SidecarLimits) {
    this.limits = limits;
  }

  get size(): number {
    return this.contexts.size;
  }

  sizes(): CollectionSizes {
    return {
      sidecar_parts: this.parts.size,
      sidecar_contexts: this.contexts.size,
      sidecar_parts_asked: this.asked.size,
      sidecar_parts_changed: this.changed.size,
      sidecar_quiet_homes: this.quiet.size,
    };
  }

  knows = (contextId: Uuid): boolean => this.contexts.has(contextId);

  /** The context waits for the sidecar. */
  open(context: ActiveContext): void {
    const part = partOf(context);
    const key = keyOf(part);
    let watched = this.parts.get(key);
    if (watched === undefined) {
      watched = { ...part, key, contexts: new Set(), toldAt: 0, cost: 0, told: null };
      this.parts.set(key, watched);
    }
    // That nothing waits there would say that the context is over.
    if (part.homeId !== null) this.quiet.delete(part.homeId);
    watched.contexts.add(context.id);
    this.contexts.set(context.id, { part: watched, kind: context.kind });
    this.ask(watched);
  }

  private ask(watched: Watched): void {
    watched.told = null;
    this.asked.add(watched);
  }

  /** Whether nodes of the context wait for people before they run. */
  onlyProposes = (contextId: Uuid): boolean => this.contexts.get(contextId)?.kind === 'observation';

  /** It does not wait any more; those that there was no room for take its place. */
  close(contextId: Uuid): void {
    const watched = this.contexts.get(contextId)?.part;
    if (watched === undefined) return;
    this.contexts.delete(contextId);
    watched.contexts.delete(contextId);
    if (watched.contexts.size === 0) {
      this.parts.delete(watched.key);
      this.asked.delete(watched);
      this.changed.delete(watched);
    } else if (watched.contexts.size >= this.limits.contexts) this.ask(watched);
  }

  /**
   * Something of the device changed. Called for every report of every device: it does next to nothing. True where there is
   * something to tell sooner than before.
   */
  moved(tenantId: Uuid, deviceId: Uuid, homeId: Uuid | null): boolean {
    const { parts, changed, quiet } = this;
    let at = Number.POSITIVE_INFINITY;
    const home = homeId === null ? undefined : parts.get(homeId);
    if (parts.size > 0)
      for (const part of [parts.get(deviceId), parts.get(tenantId), home])
        if (part && changed.add(part)) at = Math.min(at, this.ripeAt(part));
    if (homeId !== null && home === undefined && quiet.size < this.limits.quietHomes) {
      if (quiet.size === 0) at = Math.min(at, this.quietAt);
      quiet.set(homeId, tenantId);
    }
    return at < this.pausedUntil;
  }

  /** A device may have left its home: every part of its tenant's world may be another. */
  placed(tenantId: Uuid): void {
    for (const part of this.parts.values()) if (part.tenantId === tenantId) this.changed.add(part);
  }

  /** The part that is to be told now, if any; it is told when this answers it. */
  next(now: Milliseconds): Watched | null {
    const watched =
      first(this.asked, (one) => now >= this.askedAt(one)) ?? first(this.changed, (one) => now >= this.ripeAt(one));
    if (watched === undefined) return null;
    this.asked.delete(watched);
    this.changed.delete(watched);
    watched.toldAt = now;
    return watched;
  }

  // At once, or at most so often; what is large takes no more than its share of the time, whoever asks about it.
  private askedAt = ({ toldAt, cost }: Watched): Milliseconds => (cost === 0 ? 0 : toldAt + ASKED_SHARE * cost);
  private ripeAt = ({ toldAt, cost }: Watched): Milliseconds =>
    toldAt + Math.max(this.limits.coalesceMs, CHANGED_SHARE * cost);

  /** It is told with a world of this hash; what was asked about it since is still to be told. */
  tells(watched: Watched, hash: string): void {
    if (!this.asked.has(watched)) watched.told = hash;
  }

  /** It could not be told: it is tried again a little later. */
  later(watched: Watched, now: Milliseconds): void {
    if (this.parts.get(watched.key) !== watched) return;
    watched.told = null;
    watched.toldAt = now;
    this.changed.add(watched);
  }

  /** A home about which there is nothing to think, if it is time to tell of one. */
  nextQuiet(now: Milliseconds): Part | null {
    if (now < this.quietAt) return null;
    for (const [homeId, tenantId] of this.quiet) {
      this.quiet.delete(homeId);
      this.quietAt = now + this.limits.quietMs;
      return { tenantId, homeId, deviceId: null };
    }
    return null;
  }

  /** The home took so long to read. */
  tookQuiet(cost: Milliseconds): void {
    this.quietAt += CHANGED_SHARE * Math.min(cost, MOST_COST_MS);
  }

  /** The part took so long to read. */
  took(watched: Watched, cost: Milliseconds): void {
    watched.cost = Math.min(cost, MOST_COST_MS);
  }

  /** How long nothing is to be told unless something happens; null: for ever. */
  pause(now: Milliseconds): Milliseconds | null {
    let at = this.quiet.size > 0 ? this.quietAt : Number.POSITIVE_INFINITY;
    for (const one of this.asked) at = Math.min(at, this.askedAt(one));
    for (const one of this.changed) at = Math.min(at, this.ripeAt(one));
    this.pausedUntil = at;
    return at === Number.POSITIVE_INFINITY ? null : Math.max(0, at - now);
  }
}
