import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import { audienceKey, type Interest } from '../shared/live/interest.ts';
import type { Update } from '../shared/live/update.ts';
import type { Connection } from './connection.ts';
import { chunksOf, framed, type Told } from './frames.ts';

const MAX_REST_MS = 20;

/** Clients of one tenant that asked for the same: they get the same bytes, joined once. */
interface Audience {
  key: string;
  kinds: Pick<ReadonlySet<string>, 'has'>;
  devices: ReadonlySet<Uuid> | null;
  joined: Set<Connection>;
  apart: Set<Connection>;
  /** What was told since the last flush, for those who are joined. */
  batch: Told[];
}

interface Tenant {
  audiences: Map<string, Audience>;
  /** Those that hear of all devices. */
  everything: Set<Audience>;
  byDevice: Map<Uuid, Set<Audience>>;
}

/**
 * Who hears what. Updates are framed once and gathered until the loop has taken in what is there; then every client
 * gets them in one write. A flush that took long is followed by a pause as long, so that many clients make larger
 * batches, not a loop that does nothing else.
 */
export class Audiences {
  readonly #tenants = new Map<Uuid, Tenant>();
  readonly #homes = new Map<Connection, { tenantId: Uuid; tenant: Tenant; audience: Audience }>();
  /** Audiences with something to write. */
  readonly #dirty = new Set<Audience>();
  #scheduled = false;
  #restUntil = 0;

  /** From now on what it asked for is kept for it. */
  add(connection: Connection, tenantId: Uuid): void {
    const tenant = this.#tenants.get(tenantId) ?? { audiences: new Map(), everything: new Set(), byDevice: new Map() };
    this.#tenants.set(tenantId, tenant);
    const key = audienceKey(connection.interest);
    const audience = tenant.audiences.get(key) ?? open(tenant, key, connection.interest);
    audience.apart.add(connection);
    this.#homes.set(connection, { tenantId, tenant, audience });
  }

  remove(connection: Connection): void {
    const home = this.#homes.get(connection);
    if (home === undefined) return;
    const { tenantId, tenant, audience } = home;
    this.#homes.delete(connection);
    audience.joined.delete(connection);
    audience.apart.delete(connection);
    if (audience.joined.size + audience.apart.size > 0) return;
    close(tenant, audience);
    this.#dirty.delete(audience);
    if (tenant.audiences.size === 0) this.#tenants.delete(tenantId);
  }

  get empty(): boolean {
    return this.#homes.size === 0;
  }

  sizes(): CollectionSizes {
    let audiences = 0;
    for (const tenant of this.#tenants.values()) audiences += tenant.audiences.size;
    return {
      websocket_listeners: this.#homes.size,
      websocket_tenants: this.#tenants.size,
      websocket_audiences: audiences,
      websocket_audiences_dirty: this.#dirty.size,
    };
  }

  /** How many of the clients get what waits for them one by one, and how much that is. */
  apart(): { connections: number; waiting: number } {
    let connections = 0;
    let waiting = 0;
    for (const [connection, { audience }] of this.#homes) {
      if (!audience.apart.has(connection)) continue;
      connections++;
      waiting += connection.waiting;
    }
    return { connections, waiting };
  }

  tell(update: Update): void {
    const tenant = this.#tenants.get(update.tenantId);
    if (tenant === undefined) return;
    let told: Told | null = null;
    for (const audience of tenant.everything) told = this.#hear(audience, update, told);
    const { deviceId } = update;
    const attentive = deviceId === null ? undefined : tenant.byDevice.get(deviceId);
    if (attentive !== undefined) for (const audience of attentive) told = this.#hear(audience, update, told);
  }

  /** Answers the framed update, made for the first audience that hears it. */
  #hear(audience: Audience, update: Update, before: Told | null): Told | null {
    if (!audience.kinds.has(update.kind)) return before;
    const told = before ?? framed(update.subject, update.version, update.pieces());
    if (audience.joined.size > 0) audience.batch.push(told);
    for (const connection of audience.apart) connection.keep(told);
    this.#mark(audience);
    return told;
  }

  /** Something may be written to this client again, or it may join the others. */
  wake(connection: Connection): void {
    const home = this.#homes.get(connection);
    if (home !== undefined) this.#mark(home.audience);
  }

  #mark(audience: Audience): void {
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
    for (const audience of audiences) flush(audience);
    const ended = performance.now();
    this.#restUntil = ended + Math.min(ended - started, MAX_REST_MS);
  }
}

function flush(audience: Audience): void {
  const { joined, apart, batch } = audience;
  audience.batch = [];
  for (const connection of apart) connection.drain();
  for (const chunk of chunksOf(batch)) {
    for (const connection of joined) connection.write(chunk);
    // Who is behind after this chunk keeps the rest by subject.
    for (const connection of joined) if (!connection.level) part(audience, connection, chunk.items.at(-1), batch);
  }
  for (const connection of apart) {
    if (!connection.level) continue;
    apart.delete(connection);
    joined.add(connection);
  }
}

function part({ joined, apart }: Audience, connection: Connection, last: Told | undefined, batch: Told[]): void {
  joined.delete(connection);
  apart.add(connection);
  for (const told of batch.slice(last === undefined ? 0 : batch.lastIndexOf(last) + 1)) connection.keep(told);
}

function open(tenant: Tenant, key: string, { kinds, devices }: Interest): Audience {
  const audience: Audience = { key, kinds, devices, joined: new Set(), apart: new Set(), batch: [] };
  tenant.audiences.set(key, audience);
  if (devices === null) tenant.everything.add(audience);
  for (const device of devices ?? []) {
    const others = tenant.byDevice.get(device);
    if (others === undefined) tenant.byDevice.set(device, new Set([audience]));
    else others.add(audience);
  }
  return audience;
}

function close(tenant: Tenant, audience: Audience): void {
  tenant.audiences.delete(audience.key);
  tenant.everything.delete(audience);
  for (const device of audience.devices ?? []) {
    const others = tenant.byDevice.get(device);
    others?.delete(audience);
    if (others?.size === 0) tenant.byDevice.delete(device);
  }
}
