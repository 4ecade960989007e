import { setTimeout as after } from 'node:timers/promises';
import { elapsedOf } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Log } from '../../domain/log.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { Services } from '../../operations/operation.ts';
import { networkOf, trustedAddresses } from '../shared/client-address.ts';
import { LiveReach } from '../shared/live/live-reach.ts';
import type { CertificateAuthenticator, CertifiedDevice } from './certificate-authenticator.ts';
import type { ClientConnection } from './client-connection.ts';
import { areFlagsSupported, type ConnectPacket, isJwtUsername } from './connect-checks.ts';
import { isTenantActive, isTenantKnownInactive } from './device-access.ts';
import type { DeviceAuthenticator } from './device-authenticator.ts';
import { DeviceSession } from './device-session.ts';
import { FlowControl } from './flow-control.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { AckWriter } from './puback-queue.ts';
import { TokenBuckets } from './token-buckets.ts';
import { type AuthenticateUser, MqttUserSession, mayReadDevices } from './user-session.ts';

export type Peer = DeviceSession | MqttUserSession;

/**
 * `refused` gives no reason; `without_tls` is a user who has to connect with TLS; `unavailable` means the client should
 * try again.
 */
export type SignInOutcome = Peer | 'refused' | 'without_tls' | 'unavailable';

export interface MqttAuthenticatorParts {
  services: Pick<Services, 'actors' | 'clock' | 'invalidations' | 'store'>;
  deviceSignIn: DeviceAuthenticator;
  certificateSignIn: CertificateAuthenticator;
  authenticateUser: AuthenticateUser;
  usersNeedTls: boolean;
  /** Messages per second and burst, per device and per user. */
  rates: TokenBuckets;
  ackWriter: AckWriter;
  limits: MqttLimits;
  log: Log;
}

const isLoopback = trustedAddresses(['loopback']);

const MAX_FAILURE_DELAY_MS = 5_000;
/** Interval of the warning about users without TLS. */
const WARNING_INTERVAL_MS = 60_000;

/** Authenticates CONNECT packets of devices and tenant users, and creates their sessions. */
export class MqttAuthenticator {
  readonly #parts: MqttAuthenticatorParts;
  readonly #failures: TokenBuckets;
  /** Users without TLS that were refused and not logged yet. */
  #unloggedWithoutTls = 0;
  #warnAgainAt = Number.NEGATIVE_INFINITY;

  constructor(parts: MqttAuthenticatorParts) {
    this.#parts = parts;
    const perMinute = parts.limits.failedSignInsPerMinute;
    this.#failures = new TokenBuckets(perMinute / 60, perMinute);
  }

  sizes(): CollectionSizes {
    const { deviceSignIn, certificateSignIn, rates, ackWriter } = this.#parts;
    return {
      mqtt_rate_buckets: rates.size,
      mqtt_failure_buckets: this.#failures.size,
      ...deviceSignIn.sizes(),
      ...certificateSignIn.sizes(),
      ...ackWriter.sizes(),
    };
  }

  /** Never throws. Delays the response to failures beyond the rate of their address, never to a valid key or token. */
  async signIn(connect: ConnectPacket, connection: ClientConnection): Promise<SignInOutcome> {
    const { limits, log } = this.#parts;
    const abort = new AbortController();
    try {
      const timeout = after(limits.connectMs, 'unavailable' as const, { signal: abort.signal, ref: false });
      timeout.catch(() => {});
      const outcome = await Promise.race([this.#authenticate(connect, connection), timeout]);
      if (outcome === 'refused' || outcome === 'without_tls') {
        const delay = Math.min(this.#failures.limitFor(networkOf(connection.address)).reserve(), MAX_FAILURE_DELAY_MS);
        if (delay > 0) await after(delay, undefined, { ref: false });
      }
      return outcome;
    } catch (error) {
      log.warn({ err: error }, 'mqtt sign-in check failed');
      return 'unavailable';
    } finally {
      abort.abort();
    }
  }

  async #authenticate(connect: ConnectPacket, connection: ClientConnection): Promise<SignInOutcome> {
    if (!areFlagsSupported(connect)) return 'refused';
    return isJwtUsername(connect.username)
      ? this.#authenticateUser(connect, connection)
      : this.#authenticateDevice(connect, connection);
  }

  async #authenticateDevice(connect: ConnectPacket, connection: ClientConnection): Promise<SignInOutcome> {
    const { deviceSignIn, rates, ackWriter, limits } = this.#parts;
    // Before its certificate is verified a client has proved nothing, and the work may be large. It should try again later.
    const isByCertificate = connect.certificateClientId !== null;
    if (isByCertificate && this.#failures.waitMs(networkOf(connection.address)) > MAX_FAILURE_DELAY_MS)
      return 'unavailable';
    const identity =
      connect.certificateClientId === null
        ? await deviceSignIn.authenticate(connect)
        : await this.#authenticateCertificate(connect, connect.certificateClientId, connection);
    if (identity === null) return 'refused';
    const flow = new FlowControl(connection, limits, rates.limitFor(identity.deviceId));
    return new DeviceSession(identity, { connection, flow, ackWriter });
  }

  async #authenticateCertificate(
    { clientId: sessionId, username }: ConnectPacket,
    clientId: string,
    { certificate, address }: ClientConnection,
  ): Promise<CertifiedDevice | null> {
    if (certificate === null) return null;
    return this.#parts.certificateSignIn.authenticate({ certificate, sessionId, clientId, username, address });
  }

  async #authenticateUser({ password, clientId }: ConnectPacket, connection: ClientConnection): Promise<SignInOutcome> {
    const { services, authenticateUser, usersNeedTls, rates, limits } = this.#parts;
    if (usersNeedTls && !connection.encrypted && !isLoopback(connection.address)) {
      this.#warnOfUserWithoutTls(connection.address);
      return 'without_tls';
    }
    const secret = password?.toString() ?? '';
    const user = secret === '' ? null : await authenticateUser(secret, connection.address, clientId);
    if (user === null || !mayReadDevices(user)) return 'refused';
    const tenant = await services.actors.read<TenantContext>({ kind: 'tenant', id: user.tenantId });
    if (!isTenantActive(tenant)) return 'refused';
    return new MqttUserSession(user, secret, {
      connection,
      flow: new FlowControl(connection, limits, rates.limitFor(`user ${user.userId}`)),
      reach: LiveReach.of(services, user, () => connection.close('failed')),
    });
  }

  /** At most once a minute, because anyone can cause it. `refused` counts those since the last warning. */
  #warnOfUserWithoutTls(address: string): void {
    this.#unloggedWithoutTls += 1;
    const now = elapsedOf(this.#parts.services.clock);
    if (now < this.#warnAgainAt) return;
    this.#warnAgainAt = now + WARNING_INTERVAL_MS;
    this.#parts.log.warn(
      { address, refused: this.#unloggedWithoutTls },
      'mqtt user refused: MQTT_USER_TLS requires TLS, and the credential was sent without it',
    );
    this.#unloggedWithoutTls = 0;
  }

  /** Whether a user's credential is still valid for its session; true if that cannot be checked now. */
  async isCredentialValid(session: MqttUserSession): Promise<boolean> {
    const { actors, clock } = this.#parts.services;
    if (session.expiresAt <= clock.now() || isTenantKnownInactive(actors, session.tenantId)) return false;
    try {
      const user = await this.#parts.authenticateUser(session.secret, null);
      if (user === null || user.tenantId !== session.tenantId || !mayReadDevices(user)) return false;
      session.updateRights(user);
      return true;
    } catch {
      return true;
    }
  }
}
