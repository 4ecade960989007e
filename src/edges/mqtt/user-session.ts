import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { atLeast, type Role } from '../../domain/roles.ts';
import { allowsScope, type Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Authenticator } from '../shared/authenticator.ts';
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
}

/**
 * Null if the credential is not or no longer valid; throws if that cannot be determined. A failure counts against the
 * client's `address`, which is null when an open session is rechecked.
 */
export type AuthenticateUser = (secret: string, address: string | null) => Promise<MqttUser | null>;

/** Adapts the service's identity check to this edge. */
export const userAuthentication =
  (identity: Pick<Authenticator, 'authenticate'>, newId: () => Uuid): AuthenticateUser =>
  async (secret, address) => {
    const caller = await identity.authenticate(secret, { via: 'mqtt', requestId: newId(), address });
    if (!caller.ok) return null;
    const { user, tenantId, role, scopes, endsAt: expiresAt } = caller.value;
    if (user === null || tenantId === null) return null;
    return { tenantId, userId: user.id, role, scopes, expiresAt };
  };

/** Contract §3: MQTT users need the role of `GET /devices` and its scope. */
export const mayReadDevices = (user: MqttUser): boolean =>
  atLeast(user.role, 'user') && allowsScope(user.scopes, 'read:devices');

/** Session of a tenant user: may subscribe to the tenant's devices, never publish. */
export class UserSession {
  readonly kind = 'user';
  readonly tenantId: Uuid;
  readonly userId: Uuid;
  readonly connection: ClientConnection;
  readonly flow: FlowControl;
  expiresAt: EpochMs;
  /** Rechecked while the connection is open: a credential can be revoked before it expires. */
  readonly secret: string;
  readonly filters = new Map<string, TopicFilter>();
  #packetId = 0;

  constructor(user: MqttUser, secret: string, parts: { connection: ClientConnection; flow: FlowControl }) {
    this.tenantId = user.tenantId;
    this.userId = user.userId;
    this.expiresAt = user.expiresAt ?? Number.POSITIVE_INFINITY;
    this.secret = secret;
    this.connection = parts.connection;
    this.flow = parts.flow;
  }

  end(reason: CloseReason): void {
    this.connection.close(reason);
  }

  /** The highest subscribed QoS for a topic; null if no filter matches. */
  qosFor(levels: readonly string[]): 0 | 1 | null {
    let qos: 0 | 1 | null = null;
    for (const filter of this.filters.values()) {
      if (qos !== 1 && matchesTopic(filter.levels, levels)) qos = filter.qos;
    }
    return qos;
  }

  nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }
}

/** The open user sessions by tenant. */
export class UserSessions {
  readonly #byTenant = new Map<Uuid, Set<UserSession>>();
  readonly #limits: MqttLimits;

  constructor(limits: MqttLimits) {
    this.#limits = limits;
  }

  sizes(): CollectionSizes {
    let users = 0;
    for (const sessions of this.#byTenant.values()) users += sessions.size;
    return { mqtt_users: users, mqtt_user_tenants: this.#byTenant.size };
  }

  add(session: UserSession): void {
    const others = this.#byTenant.get(session.tenantId);
    if (others === undefined) this.#byTenant.set(session.tenantId, new Set([session]));
    else others.add(session);
  }

  remove(session: UserSession): void {
    const others = this.#byTenant.get(session.tenantId);
    others?.delete(session);
    if (others?.size === 0) this.#byTenant.delete(session.tenantId);
  }

  *all(): Iterable<UserSession> {
    for (const sessions of this.#byTenant.values()) yield* sessions;
  }

  hasTenant(tenantId: Uuid): boolean {
    return this.#byTenant.has(tenantId);
  }

  ofTenant(tenantId: Uuid): Iterable<UserSession> {
    return this.#byTenant.get(tenantId) ?? [];
  }

  /** Adds the filter to the session. False if the user may not subscribe to it, or has too many. */
  addFilter(session: UserSession, filter: string, qos: number): boolean {
    const levels = parseTopicFilter(filter, session.tenantId);
    if (levels === null) return false;
    if (!session.filters.has(filter) && session.filters.size >= this.#limits.maxFilters) return false;
    session.filters.set(filter, { levels, qos: qos > 0 ? 1 : 0 });
    return true;
  }
}
