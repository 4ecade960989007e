import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { atLeast, type Role } from '../../domain/roles.ts';
import { allowsScope, type Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Identity } from '../shared/identity.ts';
import type { Connection } from './connection.ts';
import type { FlowControl } from './flow-control.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { CloseReason } from './mqtt-meter.ts';
import { encodePublish, nextPacketId } from './packets.ts';
import { matchesTopic, parseTopicFilter, type TopicFilter, tenantTopicPrefix } from './topic-filters.ts';

/** Who a token or an API key stands for, as the identity check finds now. */
export interface MqttUser {
  tenantId: Uuid;
  userId: Uuid;
  /** Null where the credential has no end of its own. */
  expiresAt: EpochMs | null;
  role: Role;
  /** Null: all that the role allows. */
  scopes: readonly Scope[] | null;
}

/**
 * Null for a credential that is no good (any more); throws when it cannot be told. A failure counts against the client's
 * `address`, null where nobody signs in.
 */
export type AuthenticateUser = (secret: string, address: string | null) => Promise<MqttUser | null>;

/** The house's identity check, as this edge asks it. */
export const userAuthentication =
  (identity: Pick<Identity, 'authenticate'>, newId: () => Uuid): AuthenticateUser =>
  async (secret, address) => {
    const answer = await identity.authenticate(secret, { via: 'mqtt', requestId: newId(), address });
    if (!answer.ok) return null;
    const { user, tenantId, role, scopes, endsAt: expiresAt } = answer.value;
    if (user === null || tenantId === null) return null;
    return { tenantId, userId: user.id, role, scopes, expiresAt };
  };

/** Contract §3: MQTT users need the role of `GET /devices` and its scope. */
export const mayReadDevices = (user: MqttUser): boolean =>
  atLeast(user.role, 'user') && allowsScope(user.scopes, 'read:devices');

/** A tenant user's connection: it listens to its tenant's devices and says nothing. */
export class UserSession {
  readonly kind = 'user';
  readonly tenantId: Uuid;
  readonly userId: Uuid;
  readonly connection: Connection;
  readonly flow: FlowControl;
  expiresAt: EpochMs;
  /** Looked at again while the connection lasts: a credential may end before its time. */
  readonly secret: string;
  readonly filters = new Map<string, TopicFilter>();
  #packetId = 0;

  constructor(user: MqttUser, secret: string, connection: { wire: Connection; flow: FlowControl }) {
    this.tenantId = user.tenantId;
    this.userId = user.userId;
    this.expiresAt = user.expiresAt ?? Number.POSITIVE_INFINITY;
    this.secret = secret;
    this.connection = connection.wire;
    this.flow = connection.flow;
  }

  end(reason: CloseReason): void {
    this.connection.close(reason);
  }

  /** The highest QoS at which it wants the topic, or null. */
  qosFor(levels: readonly string[]): 0 | 1 | null {
    let wanted: 0 | 1 | null = null;
    for (const filter of this.filters.values()) {
      if (wanted !== 1 && matchesTopic(filter.levels, levels)) wanted = filter.qos;
    }
    return wanted;
  }

  nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }
}

/**
 * Who listens, by tenant, and what they get. Nothing is routed by the broker library: a message is written to those who
 * may have it, and who does not take it is cut, so that no listener can hold up a device.
 */
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

  /** Whether the filter is the user's to subscribe; if so it is remembered until it ends. */
  addFilter(session: UserSession, filter: string, qos: number): boolean {
    const levels = parseTopicFilter(filter, session.tenantId);
    if (levels === null) return false;
    if (!session.filters.has(filter) && session.filters.size >= this.#limits.maxFilters) return false;
    session.filters.set(filter, { levels, qos: qos > 0 ? 1 : 0 });
    return true;
  }

  /** Hands a device's message to the users of its tenant who asked for its topic. */
  publish(tenantId: Uuid, topic: string, payload: Uint8Array | string, qos: number): void {
    const sessions = this.#byTenant.get(tenantId);
    if (sessions === undefined) return;
    const levels = topic.slice(tenantTopicPrefix(tenantId).length).split('/');
    let plain: Buffer | null = null;
    for (const session of sessions) {
      const wanted = session.qosFor(levels);
      if (wanted === null) continue;
      if (wanted === 1 && qos > 0) session.connection.send(encodePublish(topic, payload, session.nextPacketId()));
      else {
        plain ??= encodePublish(topic, payload, null);
        session.connection.send(plain);
      }
    }
  }
}
