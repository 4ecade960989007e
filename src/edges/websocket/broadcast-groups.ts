import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { LiveReach } from '../shared/live/live-reach.ts';
import { broadcastGroupKey, type Subscription } from '../shared/live/subscription.ts';
import type { Update } from '../shared/live/update.ts';
import { chunksOf, encodeUpdateFrame, type UpdateFrame } from './frames.ts';
import type { WebSocketConnection } from './websocket-connection.ts';

const MAX_PAUSE_MS = 20;

/** Clients of one tenant with the same subscription: they get the same bytes, concatenated once. */
interface BroadcastGroup {
  key: string;
  kinds: Pick<ReadonlySet<string>, 'has'>;
  devices: ReadonlySet<Uuid> | null;
  /** Of the only client of the group, if its key is restricted. */
  reach: LiveReach | null;
  inSync: Set<WebSocketConnection>;
  conflating: Set<WebSocketConnection>;
  /** Updates since the last flush, for the clients in sync. */
  batch: UpdateFrame[];
}

interface TenantGroups {
  groups: Map<string, BroadcastGroup>;
  /** Groups subscribed to all devices. */
  unfiltered: Set<BroadcastGroup>;
  byDevice: Map<Uuid, Set<BroadcastGroup>>;
}

/**
 * Broadcast of updates to subscribed clients. Updates are framed once and collected until the event loop has processed
 * its pending input; then each client gets them in one write. A flush is followed by an equally long pause (20 ms at
 * most), so that with many clients batches get larger instead of flushes occupying the event loop.
 */
export class BroadcastGroups {
  readonly #tenants = new Map<Uuid, TenantGroups>();
  readonly #memberships = new Map<
    WebSocketConnection,
    { tenantId: Uuid; tenant: TenantGroups; group: BroadcastGroup }
  >();
  /** Groups that have updates to write. */
  readonly #dirty = new Set<BroadcastGroup>();
  /** Number of clients with restricted keys so far: each has its own group. */
  #restricted = 0;
  #scheduled = false;
  #pausedUntil = 0;

  /** Adds a client, which conflates until it has caught up: from now on its updates are queued. */
  add(connection: WebSocketConnection, tenantId: Uuid): void {
    const tenant: TenantGroups = this.#tenants.get(tenantId) ?? {
      groups: new Map(),
      unfiltered: new Set(),
      byDevice: new Map(),
    };
    this.#tenants.set(tenantId, tenant);
    const { reach, subscription } = connection;
    const key = reach === null ? broadcastGroupKey(subscription) : `restricted ${this.#restricted++}`;
    const group = tenant.groups.get(key) ?? openGroup(tenant, key, subscription, reach);
    group.conflating.add(connection);
    this.#memberships.set(connection, { tenantId, tenant, group });
  }

  remove(connection: WebSocketConnection): void {
    const membership = this.#memberships.get(connection);
    if (membership === undefined) return;
    const { tenantId, tenant, group } = membership;
    this.#memberships.delete(connection);
    group.inSync.delete(connection);
    group.conflating.delete(connection);
    if (group.inSync.size + group.conflating.size > 0) return;
    closeGroup(tenant, group);
    this.#dirty.delete(group);
    if (tenant.groups.size === 0) this.#tenants.delete(tenantId);
  }

  get isEmpty(): boolean {
    return this.#memberships.size === 0;
  }

  sizes(): CollectionSizes {
    let groups = 0;
    for (const tenant of this.#tenants.values()) groups += tenant.groups.size;
    return {
      websocket_listeners: this.#memberships.size,
      websocket_tenants: this.#tenants.size,
      websocket_audiences: groups,
      websocket_audiences_dirty: this.#dirty.size,
    };
  }

  /** Number of conflating clients, and of the updates that are pending for them. */
  conflatingStats(): { connections: number; pendingUpdates: number } {
    let connections = 0;
    let pendingUpdates = 0;
    for (const [connection, { group }] of this.#memberships) {
      if (!group.conflating.has(connection)) continue;
      connections++;
      pendingUpdates += connection.pendingCount;
    }
    return { connections, pendingUpdates };
  }

  publish(update: Update): void {
    const tenant = this.#tenants.get(update.tenantId);
    if (tenant === undefined) return;
    let frame: UpdateFrame | null = null;
    for (const group of tenant.unfiltered) frame = this.#enqueue(group, update, frame);
    const { deviceId } = update;
    const subscribed = deviceId === null ? undefined : tenant.byDevice.get(deviceId);
    if (subscribed !== undefined) for (const group of subscribed) frame = this.#enqueue(group, update, frame);
  }

  /** Returns the framed update, which is encoded for the first subscribed group. */
  #enqueue(group: BroadcastGroup, update: Update, encoded: UpdateFrame | null): UpdateFrame | null {
    if (!group.kinds.has(update.kind)) return encoded;
    const frame = encoded ?? encodeUpdateFrame(update.subject, update.version, update.fragments());
    if (group.reach === null) this.#add(group, frame);
    else group.reach.deliver(update.deviceId, () => this.#add(group, frame));
    return frame;
  }

  #add(group: BroadcastGroup, frame: UpdateFrame): void {
    if (group.inSync.size > 0) group.batch.push(frame);
    for (const connection of group.conflating) connection.enqueue(frame);
    this.#schedule(group);
  }

  /** To be called when a client may be written to again, or may have caught up. */
  scheduleFlush(connection: WebSocketConnection): void {
    const membership = this.#memberships.get(connection);
    if (membership !== undefined) this.#schedule(membership.group);
  }

  #schedule(group: BroadcastGroup): void {
    this.#dirty.add(group);
    if (this.#scheduled) return;
    this.#scheduled = true;
    const pause = this.#pausedUntil - performance.now();
    if (pause < 1) setImmediate(() => this.#flush());
    else setTimeout(() => this.#flush(), pause);
  }

  #flush(): void {
    const started = performance.now();
    const groups = [...this.#dirty];
    this.#dirty.clear();
    this.#scheduled = false;
    for (const group of groups) flushGroup(group);
    const ended = performance.now();
    this.#pausedUntil = ended + Math.min(ended - started, MAX_PAUSE_MS);
  }
}

function flushGroup(group: BroadcastGroup): void {
  const { inSync, conflating, batch } = group;
  group.batch = [];
  for (const connection of conflating) connection.flushPending();
  for (const chunk of chunksOf(batch)) {
    for (const connection of inSync) connection.write(chunk);
    // A client that falls behind with this chunk conflates the rest.
    for (const connection of inSync) if (!connection.isCaughtUp) detach(group, connection, chunk.items.at(-1), batch);
  }
  for (const connection of conflating) {
    if (!connection.isCaughtUp) continue;
    conflating.delete(connection);
    inSync.add(connection);
  }
}

function detach(
  { inSync, conflating }: BroadcastGroup,
  connection: WebSocketConnection,
  last: UpdateFrame | undefined,
  batch: UpdateFrame[],
): void {
  inSync.delete(connection);
  conflating.add(connection);
  for (const frame of batch.slice(last === undefined ? 0 : batch.lastIndexOf(last) + 1)) connection.enqueue(frame);
}

function openGroup(
  tenant: TenantGroups,
  key: string,
  { kinds, devices }: Subscription,
  reach: LiveReach | null,
): BroadcastGroup {
  const group: BroadcastGroup = { key, kinds, devices, reach, inSync: new Set(), conflating: new Set(), batch: [] };
  tenant.groups.set(key, group);
  if (devices === null) tenant.unfiltered.add(group);
  for (const device of devices ?? []) {
    const others = tenant.byDevice.get(device);
    if (others === undefined) tenant.byDevice.set(device, new Set([group]));
    else others.add(group);
  }
  return group;
}

function closeGroup(tenant: TenantGroups, group: BroadcastGroup): void {
  tenant.groups.delete(group.key);
  tenant.unfiltered.delete(group);
  for (const device of group.devices ?? []) {
    const others = tenant.byDevice.get(device);
    others?.delete(group);
    if (others?.size === 0) tenant.byDevice.delete(device);
  }
}
