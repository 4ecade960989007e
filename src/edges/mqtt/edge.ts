import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as after, setImmediate as nextPass } from 'node:timers/promises';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { type Lease, unlimitedLease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { DeviceContext, VerificationWatch } from '../../machines/device-types.ts';
import type { RegistrationServices } from '../../operations/device-cas/certificate-registration.ts';
import type { Services } from '../../operations/operation.ts';
import type { AddressOf } from '../shared/client-address.ts';
import type { MqttTransport } from '../shared/mqtt-client.ts';
import type { IsEncrypted } from '../shared/transport-security.ts';
import { Broker, type BrokerCallbacks } from './broker.ts';
import { CertificateAuthenticator } from './certificate-authenticator.ts';
import { CertificateChecks } from './certificate-checks.ts';
import type { ClientConnection } from './client-connection.ts';
import { CommandWriter } from './command-writer.ts';
import { isDeviceKnownInactive, isTenantKnownInactive } from './device-access.ts';
import { type CloudSigningKeys, DeviceAuthenticator } from './device-authenticator.ts';
import { type DeviceSession, DeviceSessionRegistry } from './device-session.ts';
import { MessageReceiver } from './message-receiver.ts';
import { MqttAuthenticator, type Peer } from './mqtt-authenticator.ts';
import { MqttConnection } from './mqtt-connection.ts';
import { defaultMqttLimits, type MqttLimits } from './mqtt-limits.ts';
import { type AcceptConnection, type ListenerSettings, openListeners, type RouteConnection } from './mqtt-listeners.ts';
import { type MqttMeter, noopMqttMeter } from './mqtt-meter.ts';
import type { PublishPacket } from './packets.ts';
import { AckWriter } from './puback-queue.ts';
import { SessionValidity } from './session-validity.ts';
import { reportSubscription } from './subscription-report.ts';
import { TokenBuckets } from './token-buckets.ts';
import { type AuthenticateUser, MqttUserSessions } from './user-session.ts';

export interface MqttSettings extends ListenerSettings {
  /** Messages per second and burst, per device. */
  deviceRate: { perSecond: number; burst: number };
  /** Refuse tenant users whose connection is not encrypted, except from a loopback address. Default false. */
  usersNeedTls?: boolean;
}

export interface MqttParts {
  services: Pick<
    Services,
    'actors' | 'clock' | 'deviceActivity' | 'invalidations' | 'newId' | 'open' | 'sessions' | 'settings' | 'store'
  > &
    RegistrationServices;
  settings: MqttSettings;
  /** Sign what Ed25519 devices receive. */
  signingKeys: CloudSigningKeys;
  /** The commands of a device that wait for their expected state to be reported. */
  watches(deviceId: Uuid): readonly VerificationWatch[];
  authenticateUser: AuthenticateUser;
  addressOf: AddressOf;
  /** Of upgrades to `/mqtt`. */
  isEncrypted: IsEncrypted;
  /** Checked before a command is written; no byte leaves a socket once it has expired. */
  lease?: Lease;
  log: Log;
  meter?: MqttMeter;
  limits?: Partial<MqttLimits>;
  /** Routes public connections to other nodes; without it all are served here. */
  route?: RouteConnection;
}

export interface MqttEdge extends SizeReporter {
  /** The ports that were bound; null for a listener that is not configured. */
  port: number | null;
  tlsPort: number | null;
  /** For the HTTP server's `upgrade` event, path `/mqtt`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Takes over a connection that another node has forwarded. The caller has guarded its writes by the lease. */
  accept: AcceptConnection;
  connections(): number;
  /** Accepts nothing new, waits until messages in flight are committed and acknowledged, and ends every connection. */
  close(): Promise<void>;
  /** Terminates every connection now: this process is no longer the active one. */
  abort(): void;
  /**
   * Reads no more from the peers of the tenants for which `matches` returns true, and resolves when the messages that
   * were read are acknowledged. Their connections are closed later, each at a random time, so that they do not all
   * connect again at once. False, with the peers read again, if the messages take longer than `withinMs`.
   */
  endTenants(matches: (tenantId: Uuid) => boolean, withinMs: Milliseconds): Promise<boolean>;
}

const DRAIN_POLL_MS = 20;

/** Opens the MQTT edge. Sessions of an earlier process are not restored: devices connect again. */
export async function openMqtt(parts: MqttParts): Promise<MqttEdge> {
  const edge = new MqttSessionLayer(parts);
  return edge.open();
}

/** A running session layer, independent of the transport of its connections. */
export interface RunningMqtt {
  /** Takes over a stream. The caller has guarded its writes by the lease. */
  accept: AcceptConnection;
  /** Waits until messages in flight are committed and acknowledged, and ends every connection. */
  drain(): Promise<void>;
  /** Terminates every connection now. */
  abort(): void;
  /** As `MqttEdge.endTenants`. */
  endTenants: MqttEdge['endTenants'];
}

/**
 * MQTT session layer: the sessions of all connections. `start` connects it to aedes; `open`
 * also opens the listeners.
 */
export class MqttSessionLayer implements BrokerCallbacks {
  readonly #parts: MqttParts;
  readonly #limits: MqttLimits;
  readonly #meter: MqttMeter;
  readonly #devices = new DeviceSessionRegistry();
  readonly #userSessions: MqttUserSessions;
  readonly #authenticator: MqttAuthenticator;
  readonly #certificateChecks: CertificateChecks;
  readonly #validity: SessionValidity;
  readonly #commandWriter: CommandWriter;
  readonly #receiver: MessageReceiver;
  readonly #connections = new Set<ClientConnection>();
  #signedIn = 0;
  #stopping = false;

  constructor(parts: MqttParts) {
    const { services, settings, log } = parts;
    const limits = { ...defaultMqttLimits, ...parts.limits };
    const meter = parts.meter ?? noopMqttMeter;
    const devices = this.#devices;
    const userSessions = new MqttUserSessions(limits);
    const lease = parts.lease ?? unlimitedLease;
    const commandWriter = new CommandWriter({ services, devices, userSessions, lease, meter, log });
    this.#parts = parts;
    this.#limits = limits;
    this.#meter = meter;
    this.#userSessions = userSessions;
    this.#commandWriter = commandWriter;
    this.#receiver = new MessageReceiver({
      services,
      watches: parts.watches,
      commandWriter,
      userSessions,
      limits,
      meter,
      log,
    });
    this.#certificateChecks = new CertificateChecks({
      store: services.store,
      sessions: () => devices.all(),
      log,
    });
    const deviceSignIn = new DeviceAuthenticator(services, parts.signingKeys);
    this.#authenticator = new MqttAuthenticator({
      services,
      deviceSignIn,
      certificateSignIn: new CertificateAuthenticator({ services, devices: deviceSignIn, log }),
      authenticateUser: parts.authenticateUser,
      usersNeedTls: settings.usersNeedTls ?? false,
      rates: new TokenBuckets(settings.deviceRate.perSecond, settings.deviceRate.burst),
      ackWriter: new AckWriter(),
      limits,
      log,
    });
    this.#validity = new SessionValidity({
      ...{ services, devices, userSessions },
      ...{ authenticator: this.#authenticator, certificateChecks: this.#certificateChecks },
    });
  }

  async open(): Promise<MqttEdge> {
    const { settings, addressOf, isEncrypted, services, lease = unlimitedLease, route = null } = this.#parts;
    const running = await this.start();
    const listeners = await openListeners(settings, this.#limits, running.accept, {
      addressOf,
      isEncrypted,
      newId: services.newId,
      lease,
      route,
    }).catch(async (error: unknown) => {
      await running.drain();
      throw error;
    });
    return {
      port: listeners.port,
      tlsPort: listeners.tlsPort,
      upgrade: listeners.upgrade,
      accept: running.accept,
      connections: () => this.#connections.size,
      sizes: () => ({ ...this.sizes(), ...listeners.sizes() }),
      endTenants: running.endTenants,
      close: async () => {
        listeners.close();
        await running.drain();
      },
      abort: () => {
        listeners.close();
        running.abort();
      },
    };
  }

  sizes(): CollectionSizes {
    return {
      mqtt_connections: this.#connections.size,
      ...this.#devices.sizes(),
      ...this.#userSessions.sizes(),
      ...this.#authenticator.sizes(),
    };
  }

  /** Starts aedes, and subscribes to commands to write and to what ends sessions. */
  async start(): Promise<RunningMqtt> {
    const { settings, services, log } = this.#parts;
    const broker = await Broker.open(this, { limits: this.#limits, meter: this.#meter, log });
    this.#validity.start();
    const unsubscribeWrites = services.actors.subscribe('command.write', this.#commandWriter.onCommandWrite);
    const unsubscribe = () => {
      unsubscribeWrites();
      this.#validity.unsubscribe();
    };
    const stop = () => {
      this.#stopping = true;
      this.#validity.stopTimer();
    };
    return {
      accept: (source, client) => {
        if (this.#stopping || this.#signedIn >= settings.maxConnections) return null;
        const connection = new MqttConnection(source, client, this.#limits);
        this.#register(connection, client.transport);
        broker.handle(connection);
        return connection;
      },
      drain: async () => {
        stop();
        await this.#drain();
        unsubscribe();
        await broker.close();
      },
      abort: () => {
        stop();
        unsubscribe();
        for (const connection of this.#connections) connection.terminate('stopping');
      },
      endTenants: (matches, withinMs) => this.#endTenants(matches, withinMs),
    };
  }

  // BrokerCallbacks

  async signIn(...[connect, connection]: Parameters<BrokerCallbacks['signIn']>): ReturnType<BrokerCallbacks['signIn']> {
    return this.#stopping ? 'unavailable' : this.#authenticator.signIn(connect, connection);
  }

  beforeConnack(peer: Peer): boolean {
    const { connection } = peer;
    const { sessions, actors } = this.#parts.services;
    if (connection.closing || this.#stopping || !actors.owns(peer.tenantId)) return false;
    if (this.#signedIn >= this.#parts.settings.maxConnections) return false;
    if (peer.kind === 'user') {
      if (isTenantKnownInactive(actors, peer.tenantId)) return false;
      this.#countSignedIn(connection);
      this.#userSessions.add(peer);
      connection.once('close', () => this.#userSessions.remove(peer));
      return true;
    }
    const { deviceId, tenantId, clientId: sessionId, keyVersion } = peer;
    if (isDeviceKnownInactive(actors, deviceId, tenantId)) return false;
    this.#countSignedIn(connection);
    const old = this.#devices.add(peer);
    sessions.open({ deviceId, tenantId, sessionId, keyVersion, subscribed: false });
    old?.end('takeover');
    // The key may have been rotated during the sign-in.
    const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
    if (device !== undefined) this.#validity.keyChanged(device.snapshot.context);
    // The certificate may have been revoked during the sign-in.
    void this.#certificateChecks.check(peer);
    connection.once('close', () => {
      peer.inbox.onPeerClosed();
      this.#devices.remove(peer);
      sessions.close(deviceId, sessionId);
    });
    return true;
  }

  afterConnack(peer: Peer): void {
    peer.connection.open({
      admit: (type) => peer.flow.admit(type),
      onPublish: (packet) => this.#onPublish(peer, packet),
    });
  }

  maySubscribe(...[peer, filter, qos]: Parameters<BrokerCallbacks['maySubscribe']>): boolean {
    if (peer.kind === 'device') return peer.isCommandFilter(filter);
    return this.#userSessions.addFilter(peer, filter, qos);
  }

  afterSuback(...[peer, filter, qos]: Parameters<BrokerCallbacks['afterSuback']>): void {
    if (peer.kind === 'user') return;
    peer.commandFilter = filter;
    const wasSubscribed = peer.commandQos !== null;
    peer.commandQos = qos > 0 ? 1 : 0;
    if (wasSubscribed) return;
    this.#commandWriter.sendPending(peer);
    void reportSubscription(this.#parts, peer);
  }

  afterUnsubscribe(...[peer, filter]: Parameters<BrokerCallbacks['afterUnsubscribe']>): void {
    if (peer.kind === 'user') peer.filters.delete(filter);
    else if (filter === peer.commandFilter) peer.commandQos = null;
  }

  // private

  /** Tracks and counts a new connection until it closes. */
  #register(connection: ClientConnection, transport: MqttTransport): void {
    this.#connections.add(connection);
    this.#meter.connected(transport);
    connection.once('close', () => {
      this.#connections.delete(connection);
      this.#meter.closed(connection.reason ?? 'peer');
    });
  }

  #countSignedIn(connection: ClientConnection): void {
    this.#signedIn += 1;
    connection.once('close', () => {
      this.#signedIn -= 1;
    });
  }

  #onPublish(peer: Peer, packet: PublishPacket | null): void {
    if (packet === null) peer.end('protocol');
    else if (peer.kind === 'user') peer.end('forbidden');
    else {
      try {
        this.#receiver.receive(peer, packet);
      } catch (error) {
        this.#parts.log.error(
          { err: error, deviceId: peer.deviceId },
          'device message handling failed; ending session',
        );
        peer.end('failed');
      }
    }
  }

  async #endTenants(matches: (tenantId: Uuid) => boolean, withinMs: Milliseconds): Promise<boolean> {
    const devices = [...this.#devices.all()].filter(({ tenantId }) => matches(tenantId));
    const users = [...this.#userSessions.all()].filter(({ tenantId }) => matches(tenantId));
    if (!(await this.#finishMessages(devices, withinMs))) {
      for (const { flow } of devices) flow.resume('ending');
      return false;
    }
    for (const session of devices) this.#devices.remove(session);
    for (const session of users) this.#userSessions.remove(session);
    for (const session of [...devices, ...users]) {
      const delay = Math.random() * this.#limits.moveSpreadMs;
      const timer = setTimeout(() => session.end('moved'), delay).unref();
      session.connection.once('close', () => clearTimeout(timer));
    }
    return true;
  }

  /** Reads no more from these devices; false if their messages in flight are not all acknowledged within `withinMs`. */
  async #finishMessages(sessions: readonly DeviceSession[], withinMs: Milliseconds): Promise<boolean> {
    for (const { flow } of sessions) flow.pause('ending');
    const until = performance.now() + withinMs;
    const isBusy = () => sessions.some(({ ended, flow }) => !ended && flow.inFlight > 0);
    while (isBusy() && performance.now() < until) await after(DRAIN_POLL_MS);
    await nextPass();
    return !isBusy();
  }

  async #drain(): Promise<void> {
    const sessions = [...this.#devices.all()];
    await this.#finishMessages(sessions, this.#limits.drainMs);
    for (const session of sessions) session.end('stopping');
    for (const connection of this.#connections) connection.close('stopping');
    await nextPass();
  }
}
