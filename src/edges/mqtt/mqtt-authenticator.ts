import { randomUUID } from 'node:crypto';
import { setTimeout as after } from 'node:timers/promises';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Log } from '../../domain/log.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { Services } from '../../operations/operation.ts';
import { networkOf } from '../shared/client-address.ts';
import type { Connection } from './connection.ts';
import { isTenantActive, isTenantKnownInactive } from './device-access.ts';
import { DeviceSession } from './device-session.ts';
import type { DeviceSignIn } from './device-sign-in.ts';
import { FlowControl } from './flow-control.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { AckWriter } from './puback-queue.ts';
import { TokenBuckets } from './token-buckets.ts';
import { type AuthenticateUser, mayReadDevices, UserSession } from './user-session.ts';

export type Peer = DeviceSession | UserSession;

/** A CONNECT in MQTT 3.1.1, as the library parsed it. */
export interface ConnectPacket {
  clientId: string;
  username: string | undefined;
  password: Buffer | undefined;
  clean: boolean;
  will: boolean;
}

/** `refused` says nothing more; `unavailable` asks to come back. */
export type SignInOutcome = Peer | 'refused' | 'unavailable';

export interface MqttAuthenticatorParts {
  services: Pick<Services, 'actors' | 'clock'>;
  deviceSignIn: DeviceSignIn;
  authenticateUser: AuthenticateUser;
  /** Messages a second and their burst, per device and per user. */
  rates: TokenBuckets;
  ackWriter: AckWriter;
  limits: MqttLimits;
  log: Log;
}

/** The user name of a tenant user, whose password is a token or an API key. */
const JWT_USERNAME = 'jwt';
const LONGEST_DELAY_MS = 5_000;

export const isJwtUsername = (username: string | undefined): boolean => username === JWT_USERNAME;
/** Whatever a tenant user calls itself, it takes nobody's place. */
export const newUserClientId = (): string => `user.${randomUUID()}`;

/** Decides who is let in, and makes the session of whoever is. */
export class MqttAuthenticator {
  readonly #parts: MqttAuthenticatorParts;
  readonly #failures: TokenBuckets;

  constructor(parts: MqttAuthenticatorParts) {
    this.#parts = parts;
    const perMinute = parts.limits.failedSignInsPerMinute;
    this.#failures = new TokenBuckets(perMinute / 60, perMinute);
  }

  sizes(): CollectionSizes {
    const { deviceSignIn, rates, ackWriter } = this.#parts;
    return {
      mqtt_rate_buckets: rates.size,
      mqtt_failure_buckets: this.#failures.size,
      ...deviceSignIn.sizes(),
      ...ackWriter.sizes(),
    };
  }

  /** Never throws. Failures of an address beyond its rate are answered later, good credentials never. */
  async signIn(connect: ConnectPacket, wire: Connection): Promise<SignInOutcome> {
    const { limits, log } = this.#parts;
    const late = new AbortController();
    try {
      const timeout = after(limits.connectMs, 'unavailable' as const, { signal: late.signal, ref: false });
      timeout.catch(() => {});
      const outcome = await Promise.race([this.#check(connect, wire), timeout]);
      if (outcome === 'refused') {
        const delay = Math.min(this.#failures.limitFor(networkOf(wire.address)).reserve(), LONGEST_DELAY_MS);
        if (delay > 0) await after(delay, undefined, { ref: false });
      }
      return outcome;
    } catch (error) {
      log.warn({ err: error }, 'a sign-in could not be checked');
      return 'unavailable';
    } finally {
      late.abort();
    }
  }

  async #check(connect: ConnectPacket, wire: Connection): Promise<SignInOutcome> {
    if (!connect.clean || connect.will) return 'refused';
    return isJwtUsername(connect.username) ? this.#user(connect, wire) : this.#device(connect, wire);
  }

  async #device(connect: ConnectPacket, wire: Connection): Promise<SignInOutcome> {
    const { deviceSignIn, rates, ackWriter, limits } = this.#parts;
    const identity = await deviceSignIn.authenticate(connect);
    if (identity === null) return 'refused';
    const flow = new FlowControl(wire, limits, rates.limitFor(identity.deviceId));
    return new DeviceSession(identity, { wire, flow, ackWriter });
  }

  async #user({ password }: ConnectPacket, wire: Connection): Promise<SignInOutcome> {
    const { services, authenticateUser, rates, limits } = this.#parts;
    const secret = password?.toString() ?? '';
    const user = secret === '' ? null : await authenticateUser(secret, wire.address);
    if (user === null || !mayReadDevices(user)) return 'refused';
    const tenant = await services.actors.read<TenantContext>({ kind: 'tenant', id: user.tenantId });
    if (!isTenantActive(tenant)) return 'refused';
    return new UserSession(user, secret, {
      wire,
      flow: new FlowControl(wire, limits, rates.limitFor(`user ${user.userId}`)),
    });
  }

  /** Whether a user's credential still opens what it opened; one that cannot be looked at stays as it is. */
  async isCredentialValid(session: UserSession): Promise<boolean> {
    const { actors, clock } = this.#parts.services;
    if (session.expiresAt <= clock.now() || isTenantKnownInactive(actors, session.tenantId)) return false;
    try {
      const user = await this.#parts.authenticateUser(session.secret, null);
      return user !== null && user.tenantId === session.tenantId && mayReadDevices(user);
    } catch {
      return true;
    }
  }
}
