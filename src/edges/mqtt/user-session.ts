import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Channel } from '../../protocol/topics.ts';
import type { Authenticator } from '../shared/authenticator.ts';
import type { LiveReach } from '../shared/live/live-reach.ts';
import { meets, streamAccess } from '../shared/live/read-access.ts';
import type { AccessRequirement } from '../shared/live/subscription.ts';
import type { ClientConnection } from './client-connection.ts';
import type { FlowControl } from './flow-control.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { CloseReason } from './mqtt-meter.ts';
import { nextPacketId } from './packets.ts';
import { matchesTopic, parseTopicFilter, type TopicFilter } from './topic-filters.ts';

/** The user that a token or an API key authenticates, as of now. */
export interface MqttUser {
  tenantId: Uuid;
  userId: Uuid;
  /** Null if the credential does not expire. */
  expiresAt: EpochMs | null;
  role: Role;
  /** Null: everything that the role allows. */
  scopes: readonly Scope[] | null;
  /** Of a restricted API key. */
  restriction?: KeyRestriction;
}

/**
 * Null if the credential is not or no longer valid; throws if that cannot be determined. A failure counts against the
 * client's `address`, which is null when an open session is rechecked; `client` is its client id.
 */
export type AuthenticateUser = (secret: string, address: string | null, client?: string) => Promise<MqttUser | null>;

/** Adapts the service's identity check to this edge. */
export const userAuthentication =
  (identity: Pick<Authenticator, 'authenticate'>, newId: () => Uuid): AuthenticateUser =>
  async (secret, address, client) => {
    const caller = await identity.authenticate(secret, { via: 'mqtt', requestId: newId(), address, client });
    if (!caller.ok) return null;
    const { user, tenantId, role, scopes, restriction, endsAt: expiresAt } = caller.value;
    if (user === null || tenantId === null) return null;
    return { tenantId, userId: user.id, role, scopes, expiresAt, ...(restriction && { restriction }) };
  };

/** Contract §3: MQTT users need the role of `GET /devices` and its scope. */
export const mayReadDevices = (user: MqttUser): boolean => meets(user, streamAccess('device'));

/** Role and scope of users who receive the messages of a channel, by what these are about. */
export const channelAccess: Readonly<Record<Channel, AccessRequirement>> = {
  hello: streamAccess('device'),
  heartbeat: streamAccess('device'),
  state: streamAccess('device'),
  cmd: streamAccess('command'),
  // The result of a command, and the state that its device reports with it.
  cmd_ack: streamAccess('command'),
};

/** The channels whose messages the user may receive. */
const readableChannels = (user: MqttUser): ReadonlySet<string> =>
  new Set(Object.entries(channelAccess).flatMap(([channel, access]) => (meets(user, access) ? [channel] : [])));

/** Session of a tenant user: may subscribe to the tenant's devices, never publish. */
export class MqttUserSession {
  readonly kind = 'user';
  readonly tenantId: Uuid;
  readonly userId: Uuid;
  readonly connection: ClientConnection;
  readonly flow: FlowControl;
  expiresAt: EpochMs;
  /** Rechecked while the connection is open: a credential can be revoked before it expires. */
  readonly secret: string;
  /** The devices whose messages it receives; null for a credential that is not restricted. */
  readonly reach: LiveReach | null;
  readonly filters = new Map<string, TopicFilter>();
  #readable: ReadonlySet<string>;
  #packetId = 0;

  constructor(
    user: MqttUser,
    secret: string,
    parts: { connection: ClientConnection; flow: FlowControl; reach: LiveReach | null },
  ) {
    this.tenantId = user.tenantId;
    this.userId = user.userId;
    this.#readable = readableChannels(user);
    this.expiresAt = user.expiresAt ?? Number.POSITIVE_INFINITY;
    this.secret = secret;
    this.connection = parts.connection;
    this.flow = parts.flow;
    this.reach = parts.reach;
    this.connection.once('close', () => this.reach?.close());
    // It may have closed during the sign-in.
    if (this.connection.closing) this.reach?.close();
  }

  end(reason: CloseReason): void {
    this.connection.close(reason);
  }

  /** Sets the user's current rights, after the credential was checked again. */
  updateRights(user: MqttUser): void {
    this.#readable = readableChannels(user);
  }

  /**
   * The highest subscribed QoS for a topic, given by its levels below the tenant's prefix: device and channel. Null if no
   * filter matches, or the user may not read what the channel carries.
   */
  qosFor(levels: readonly string[]): 0 | 1 | null {
    let qos: 0 | 1 | null = null;
    if (!this.#readable.has(levels[1] ?? '')) return null;
    for (const filter of this.filters.values()) {
      if (qos !== 1 && matchesTopic(filter.levels, levels)) qos = filter.qos;
    }
    return qos;
  }

  /** False for a filter that names only a channel that the user may not read; wildcards select among the others. */
  maySubscribe([, channel = '#']: readonly string[]): boolean {
    return this.#readable.has(channel) || !Object.hasOwn(channelAccess, channel);
  }

  nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }
}

/** The open user sessions by tenant. */
export class MqttUserSessions {
  readonly #byTenant = new Map<Uuid, Set<MqttUserSession>>();
  readonly #limits: MqttLimits;

  constructor(limits: MqttLimits) {
    this.#limits = limits;
  }

  sizes(): CollectionSizes {
    let users = 0;
    for (const sessions of this.#byTenant.values()) users += sessions.size;
    return { mqtt_users: users, mqtt_user_tenants: this.#byTenant.size };
  }

  add(session: MqttUserSession): void {
    const others = this.#byTenant.get(session.tenantId);
    if (others === undefined) this.#byTenant.set(session.tenantId, new Set([session]));
    else others.add(session);
  }

  remove(session: MqttUserSession): void {
    const others = this.#byTenant.get(session.tenantId);
    others?.delete(session);
    if (others?.size === 0) this.#byTenant.delete(session.tenantId);
  }

  *all(): Iterable<MqttUserSession> {
    for (const sessions of this.#byTenant.values()) yield* sessions;
  }

  hasTenant(tenantId: Uuid): boolean {
    return this.#byTenant.has(tenantId);
  }

  ofTenant(tenantId: Uuid): Iterable<MqttUserSession> {
    return this.#byTenant.get(tenantId) ?? [];
  }

  /** Adds the filter to the session. False if the user may not subscribe to it, or has too many. */
  addFilter(session: MqttUserSession, filter: string, qos: number): boolean {
    const levels = parseTopicFilter(filter, session.tenantId);
    if (levels === null || !session.maySubscribe(levels)) return false;
    if (!session.filters.has(filter) && session.filters.size >= this.#limits.maxFilters) return false;
    session.filters.set(filter, { levels, qos: qos > 0 ? 1 : 0 });
    return true;
  }
}
