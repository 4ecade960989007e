import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import { broadcastGroupKey, type Subscription } from '../shared/live/subscription.ts';
import type { Update } from '../shared/live/update.ts';
import type { Connection } from './connection.ts';
import { chunksOf, encodeUpdateFrame, type UpdateFrame } from './frames.ts';

const MAX_REST_MS = 20;

/** Clients of one tenant that asked for the same: they get the same bytes, joined once. */
interface BroadcastGroup {
  key: string;
  kinds: Pick<ReadonlySet<string>, 'has'>;
  devices: ReadonlySet<Uuid> | null;
  inSync: Set<Connection>;
  conflating: Set<Connection>;
  /** What was told since the last flush, for those who are joined. */
  batch: UpdateFrame[];
}

interface TenantGroups {
  groups: Map<string, BroadcastGroup>;
  /** Those that hear of all devices. */
  unfiltered: Set<BroadcastGroup>;
  byDevice: Map<Uuid, Set<BroadcastGroup>>;
}

/**
 * Who hears what. Updates are framed once and gathered until the loop has taken in what is there; then every client
 * gets them in one write. A flush that took long is followed by a pause as long, so that many clients make larger
 * batches, not a loop that does nothing else.
 */
export class BroadcastGroups {
  readonly #tenants = new Map<Uuid, TenantGroups>();
  readonly #homes = new Map<Connection, { tenantId: Uuid; tenant: TenantGroups; audience: BroadcastGroup }>();
  /** Audiences with something to write. */
  readonly #dirty = new Set<BroadcastGroup>();
  #scheduled = false;
  #restUntil = 0;

  /** From now on what it asked for is kept for it. */
  add(connection: Connection, tenantId: Uuid): void {
    const tenant = this.#tenants.get(tenantId) ?? { groups: new Map(), unfiltered: new Set(), byDevice: new Map() };
    this.#tenants.set(tenantId, tenant);
    const key = broadcastGroupKey(connection.subscription);
    const audience = tenant.groups.get(key) ?? openGroup(tenant, key, connection.subscription);
    audience.conflating.add(connection);
    this.#homes.set(connection, { tenantId, tenant, audience });
  }

  remove(connection: Connection): void {
    const home = this.#homes.get(connection);
    if (home === undefined) return;
    const { tenantId, tenant, audience } = home;
    this.#homes.delete(connection);
    audience.inSync.delete(connection);
    audience.conflating.delete(connection);
    if (audience.inSync.size + audience.conflating.size > 0) return;
    closeGroup(tenant, audience);
    this.#dirty.delete(audience);
    if (tenant.groups.size === 0) this.#tenants.delete(tenantId);
  }

  get isEmpty(): boolean {
    return this.#homes.size === 0;
  }

  sizes(): CollectionSizes {
    let audiences = 0;
    for (const tenant of this.#tenants.values()) audiences += tenant.groups.size;
    return {
      websocket_listeners: this.#homes.size,
      websocket_tenants: this.#tenants.size,
      websocket_audiences: audiences,
      websocket_audiences_dirty: this.#dirty.size,
    };
  }

  /** How many of the clients get what waits for them one by one, and how much that is. */
  conflatingStats(): { connections: number; waiting: number } {
    let connections = 0;
    let waiting = 0;
    for (const [connection, { audience }] of this.#homes) {
      if (!audience.conflating.has(connection)) continue;
      connections++;
      waiting += connection.pendingCount;
    }
    return { connections, waiting };
  }

  publish(update: Update): void {
    const tenant = this.#tenants.get(update.tenantId);
    if (tenant === undefined) return;
    let told: UpdateFrame | null = null;
    for (const audience of tenant.unfiltered) told = this.#hear(audience, update, told);
    const { deviceId } = update;
    const attentive = deviceId === null ? undefined : tenant.byDevice.get(deviceId);
    if (attentive !== undefined) for (const audience of attentive) told = this.#hear(audience, update, told);
  }

  /** Answers the framed update, made for the first audience that hears it. */
  #hear(audience: BroadcastGroup, update: Update, before: UpdateFrame | null): UpdateFrame | null {
    if (!audience.kinds.has(update.kind)) return before;
    const told = before ?? encodeUpdateFrame(update.subject, update.version, update.fragments());
    if (audience.inSync.size > 0) audience.batch.push(told);
    for (const connection of audience.conflating) connection.enqueue(told);
    this.#mark(audience);
    return told;
  }

  /** Something may be written to this client again, or it may join the others. */
  scheduleFlush(connection: Connection): void {
    const home = this.#homes.get(connection);
    if (home !== undefined) this.#mark(home.audience);
  }

  #mark(audience: BroadcastGroup): void {
    this.#dirty.add(audience);
    if (this.#scheduled) return;
    this.#scheduled = true;
    const rest = this.#restUntil - performance.now();
    if (rest < 1) setImmediate(() => this.#flush());
    else setTimeout(() => this.#flush(), rest);
  }

  #flush(): void {
    const started = performance.now();
    const audiences = [...this.#dirty];
    this.#dirty.clear();
    this.#scheduled = false;
    for (const audience of audiences) flushGroup(audience);
    const ended = performance.now();
    this.#restUntil = ended + Math.min(ended - started, MAX_REST_MS);
  }
}

function flushGroup(audience: BroadcastGroup): void {
  const { inSync, conflating, batch } = audience;
  audience.batch = [];
  for (const connection of conflating) connection.flushPending();
  for (const chunk of chunksOf(batch)) {
    for (const connection of inSync) connection.write(chunk);
    // Who is behind after this chunk keeps the rest by subject.
    for (const connection of inSync)
      if (!connection.isCaughtUp) detach(audience, connection, chunk.items.at(-1), batch);
  }
  for (const connection of conflating) {
    if (!connection.isCaughtUp) continue;
    conflating.delete(connection);
    inSync.add(connection);
  }
}

function detach(
  { inSync, conflating }: BroadcastGroup,
  connection: Connection,
  last: UpdateFrame | undefined,
  batch: UpdateFrame[],
): void {
  inSync.delete(connection);
  conflating.add(connection);
  for (const told of batch.slice(last === undefined ? 0 : batch.lastIndexOf(last) + 1)) connection.enqueue(told);
}

function openGroup(tenant: TenantGroups, key: string, { kinds, devices }: Subscription): BroadcastGroup {
  const audience: BroadcastGroup = { key, kinds, devices, inSync: new Set(), conflating: new Set(), batch: [] };
  tenant.groups.set(key, audience);
  if (devices === null) tenant.unfiltered.add(audience);
  for (const device of devices ?? []) {
    const others = tenant.byDevice.get(device);
    if (others === undefined) tenant.byDevice.set(device, new Set([audience]));
    else others.add(audience);
  }
  return audience;
}

function closeGroup(tenant: TenantGroups, audience: BroadcastGroup): void {
  tenant.groups.delete(audience.key);
  tenant.unfiltered.delete(audience);
  for (const device of audience.devices ?? []) {
    const others = tenant.byDevice.get(device);
    others?.delete(audience);
    if (others?.size === 0) tenant.byDevice.delete(device);
  }
}
