import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as after, setImmediate as nextPass } from 'node:timers/promises';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { type Lease, unlimitedLease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceContext, VerificationWatch } from '../../machines/device-types.ts';
import type { Services } from '../../operations/operation.ts';
import type { SigningKey } from '../../protocol/signature.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { type BrokerCallbacks, createBroker } from './broker.ts';
import { CommandWriter } from './command-writer.ts';
import type { Connection } from './connection.ts';
import { isDeviceKnownInactive, isTenantKnownInactive } from './device-access.ts';
import { type DeviceSession, DeviceSessions } from './device-session.ts';
import { DeviceSignIn } from './device-sign-in.ts';
import { MessageReceiver } from './message-receiver.ts';
import { MqttAuthenticator, type Peer } from './mqtt-authenticator.ts';
import { MqttConnection } from './mqtt-connection.ts';
import { defaultMqttLimits, type MqttLimits } from './mqtt-limits.ts';
import { type AcceptConnection, type ListenerSettings, openListeners } from './mqtt-listeners.ts';
import { type MqttMeter, noopMqttMeter, type Transport } from './mqtt-meter.ts';
import { decodePublish, type PublishPacket } from './packets.ts';
import { AckWriter } from './puback-queue.ts';
import { TokenBuckets } from './token-buckets.ts';
import { type AuthenticateUser, type UserSession, UserSessions } from './user-session.ts';

export interface MqttSettings extends ListenerSettings {
  /** Messages a second and their burst, per device. */
  deviceRate: { perSecond: number; burst: number };
}

export interface MqttParts {
  services: Services;
  settings: MqttSettings;
  /** Signs what Ed25519 devices receive (`DEVICE_SIGNING_KEY`). */
  signingKey: SigningKey;
  /** The commands of a device that wait to see their expected state. */
  watches(deviceId: Uuid): readonly VerificationWatch[];
  authenticateUser: AuthenticateUser;
  addressOf: AddressOf;
  /** Asked before a command is written; no byte leaves a socket when it is over. */
  lease?: Lease;
  log: Log;
  meter?: MqttMeter;
  limits?: Partial<MqttLimits>;
}

export interface MqttEdge extends SizeReporter {
  /** The ports that were bound. */
  port: number;
  tlsPort: number | null;
  /** For the HTTP server's `upgrade` event, path `/mqtt`. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  connections(): number;
  /** Takes nothing new, lets what is in flight be committed and acknowledged, and ends every connection. */
  close(): Promise<void>;
  /** Cuts every connection now: this process may not speak for the service any more. */
  abort(): void;
}

const SWEEP_MS = 1_000;
const DRAIN_LOOK_MS = 20;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;

/** Opens the MQTT edge. Sessions from before this moment count for nothing. */
export async function openMqtt(parts: MqttParts): Promise<MqttEdge> {
  const edge = new MqttSessionLayer(parts);
  return edge.open();
}

/** A running edge, whatever carries its connections. */
export interface RunningMqtt {
  /** Takes over a stream whose writes are guarded by the lease. */
  accept: AcceptConnection;
  /** Lets what is in flight be committed and acknowledged, and ends every connection. */
  drain(): Promise<void>;
  /** Cuts every connection now. */
  abort(): void;
}

/** The sessions of all connections: `start` puts the broker library in front of them, and `open` sockets in front of that. */
export class MqttSessionLayer implements BrokerCallbacks {
  readonly #parts: MqttParts;
  readonly #limits: MqttLimits;
  readonly #meter: MqttMeter;
  readonly #devices = new DeviceSessions();
  readonly #listeners: UserSessions;
  readonly #gatekeeper: MqttAuthenticator;
  readonly #downlink: CommandWriter;
  readonly #receiver: MessageReceiver;
  readonly #wires = new Set<Connection>();
  #stopping = false;

  constructor(parts: MqttParts) {
    const { services, settings, log } = parts;
    const limits = { ...defaultMqttLimits, ...parts.limits };
    const meter = parts.meter ?? noopMqttMeter;
    const devices = this.#devices;
    const listeners = new UserSessions(limits);
    const lease = parts.lease ?? unlimitedLease;
    const downlink = new CommandWriter({ services, devices, userSessions: listeners, lease, meter, log });
    this.#parts = parts;
    this.#limits = limits;
    this.#meter = meter;
    this.#listeners = listeners;
    this.#downlink = downlink;
    this.#receiver = new MessageReceiver({
      services,
      watches: parts.watches,
      commandWriter: downlink,
      userSessions: listeners,
      limits,
      meter,
      log,
    });
    this.#gatekeeper = new MqttAuthenticator({
      services,
      deviceSignIn: new DeviceSignIn(services, parts.signingKey),
      authenticateUser: parts.authenticateUser,
      rates: new TokenBuckets(settings.deviceRate.perSecond, settings.deviceRate.burst),
      ackWriter: new AckWriter(),
      limits,
      log,
    });
  }

  async open(): Promise<MqttEdge> {
    const { settings, addressOf, services, lease = unlimitedLease } = this.#parts;
    const started = await this.start();
    const sockets = await openListeners(settings, this.#limits, started.accept, {
      addressOf,
      newId: services.newId,
      lease,
    }).catch(async (error: unknown) => {
      await started.drain();
      throw error;
    });
    return {
      port: sockets.port,
      tlsPort: sockets.tlsPort,
      upgrade: sockets.upgrade,
      connections: () => this.#wires.size,
      sizes: () => this.sizes(),
      close: async () => {
        sockets.close();
        await started.drain();
      },
      abort: () => {
        sockets.close();
        started.abort();
      },
    };
  }

  sizes(): CollectionSizes {
    return {
      mqtt_connections: this.#wires.size,
      ...this.#devices.sizes(),
      ...this.#listeners.sizes(),
      ...this.#gatekeeper.sizes(),
    };
  }

  /** Starts the broker library, follows the actors, and ends sessions when their time is up. */
  async start(): Promise<RunningMqtt> {
    const { settings, log } = this.#parts;
    const broker = await createBroker(this, { limits: this.#limits, meter: this.#meter, log });
    const unfollow = this.#follow();
    const sweep = setInterval(() => this.#sweep(), SWEEP_MS);
    sweep.unref();
    const stop = () => {
      this.#stopping = true;
      clearInterval(sweep);
    };
    return {
      accept: (source, address, transport) => {
        if (this.#stopping || this.#wires.size >= settings.maxConnections) return null;
        const wire = new MqttConnection(source, address, this.#limits);
        this.#attach(wire, transport);
        broker.handle(wire);
        return wire;
      },
      drain: async () => {
        stop();
        await this.#drain();
        unfollow();
        await broker.close();
      },
      abort: () => {
        stop();
        unfollow();
        for (const wire of this.#wires) wire.terminate('stopping');
      },
    };
  }

  // BrokerEnds

  async signIn(...[connect, wire]: Parameters<BrokerCallbacks['signIn']>): ReturnType<BrokerCallbacks['signIn']> {
    return this.#stopping ? 'unavailable' : this.#gatekeeper.signIn(connect, wire);
  }

  beforeConnack(peer: Peer): boolean {
    const { connection } = peer;
    if (connection.closing || this.#stopping) return false;
    const { sessions, actors } = this.#parts.services;
    if (peer.kind === 'user') {
      if (isTenantKnownInactive(actors, peer.tenantId)) return false;
      this.#listeners.add(peer);
      connection.once('close', () => this.#listeners.remove(peer));
      return true;
    }
    const { deviceId, tenantId, clientId: sessionId, keyVersion } = peer;
    if (isDeviceKnownInactive(actors, deviceId, tenantId)) return false;
    const old = this.#devices.add(peer);
    sessions.open({ deviceId, tenantId, sessionId, keyVersion, subscribed: false });
    old?.end('takeover');
    // The key may have been rotated while the sign-in was checked.
    const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
    if (device !== undefined) this.#keyChanged(device.snapshot.context);
    connection.once('close', () => {
      peer.inbox?.onPeerClosed();
      this.#devices.remove(peer);
      sessions.close(deviceId, sessionId);
    });
    return true;
  }

  afterConnack(peer: Peer): void {
    peer.connection.open({
      admit: (type) => peer.flow.admit(type),
      onPublish: (flags, bytes, from, to) => this.#published(peer, decodePublish(flags, bytes, from, to)),
    });
  }

  maySubscribe(...[peer, filter, qos]: Parameters<BrokerCallbacks['maySubscribe']>): boolean {
    if (peer.kind === 'device') return filter === peer.commandTopic;
    return this.#listeners.addFilter(peer, filter, qos);
  }

  afterSuback(...[peer, , qos]: Parameters<BrokerCallbacks['afterSuback']>): void {
    if (peer.kind === 'user') return;
    const stood = peer.commandQos !== null;
    peer.commandQos = qos > 0 ? 1 : 0;
    if (stood) return;
    this.#downlink.sendPending(peer);
    void this.#announce(peer);
  }

  afterUnsubscribe(...[peer, filter]: Parameters<BrokerCallbacks['afterUnsubscribe']>): void {
    if (peer.kind === 'user') peer.filters.delete(filter);
    else if (filter === peer.commandTopic) peer.commandQos = null;
  }

  // private

  /** Counts a new connection until it closes. */
  #attach(connection: Connection, transport: Transport): void {
    this.#wires.add(connection);
    this.#meter.connected(transport);
    connection.once('close', () => {
      this.#wires.delete(connection);
      this.#meter.closed(connection.reason ?? 'peer');
    });
  }

  #published(peer: Peer, packet: PublishPacket | null): void {
    if (packet === null) peer.end('protocol');
    else if (peer.kind === 'user') peer.end('forbidden');
    else {
      try {
        this.#receiver.receive(peer, packet);
      } catch (error) {
        this.#parts.log.error({ err: error, deviceId: peer.deviceId }, 'a message could not be handled');
        peer.end('failed');
      }
    }
  }

  /**
   * Pending commands are written once this is known; while the store is away it is said again. One at a time for a session:
   * another subscription meanwhile has it said once more.
   */
  async #announce(session: DeviceSession): Promise<void> {
    session.unreportedSubscriptions += 1;
    if (session.unreportedSubscriptions > 1) return;
    const { services, log } = this.#parts;
    let wait = FIRST_RETRY_MS;
    while (!session.ended && session.commandQos !== null) {
      const heard = session.unreportedSubscriptions;
      try {
        await services.sessions.markSubscribed(session.deviceId, session.clientId);
        if (session.unreportedSubscriptions === heard) break;
      } catch (error) {
        log.warn({ err: error, deviceId: session.deviceId }, 'pending commands wait for the store');
        await after(wait, undefined, { ref: false });
        wait = Math.min(wait * 2, LAST_RETRY_MS);
      }
    }
    session.unreportedSubscriptions = 0;
  }

  /** What the actors say that ends sessions or is to be written to them. */
  #follow(): () => void {
    const { actors, invalidations, deviceActivity } = this.#parts.services;
    const off = [
      invalidations.subscribe((item) => {
        if (item.about === 'user') this.#lookAgain((session) => session.userId === item.id);
        else if (item.about !== 'presented') this.#lookAgain();
      }),
      actors.subscribe('command.write', this.#downlink.onCommandWrite),
      actors.subscribe('session.end', ({ tenantId, deviceId, keyVersion }) => {
        const session = this.#devices.get(deviceId);
        // Not one key ended, but the device.
        if (keyVersion === undefined) deviceActivity.remove({ tenantId, deviceId });
        if (keyVersion === undefined || session?.keyVersion === keyVersion) session?.end('ended');
      }),
      actors.subscribe('tenant.changed', ({ tenantId, suspended }) => {
        if (!suspended) return;
        for (const session of this.#devices.all()) if (session.tenantId === tenantId) session.end('suspended');
        for (const session of this.#listeners.ofTenant(tenantId)) session.end('suspended');
      }),
      actors.subscribeTransitions(({ ref, snapshot }, { type }) => {
        if (ref.kind !== 'device' || (type !== 'rotate' && type !== 'reinstate')) return;
        this.#keyChanged(snapshot.context as DeviceContext);
      }),
    ];
    return () => {
      for (const unfollow of off) unfollow();
    };
  }

  /**
   * A session lasts as long as the key that opened it verifies. A session can still be open at a reinstatement: where the outcome
   * of the revocation's commit was unknown, no `session.end` was emitted.
   */
  #keyChanged({ id, keyVersion, grace }: DeviceContext): void {
    const session = this.#devices.get(id);
    if (session === undefined || session.keyVersion === keyVersion) return;
    if (grace?.keyVersion === session.keyVersion) session.expiresAt = Math.min(session.expiresAt, grace.until);
    else session.end('ended');
  }

  #sweep(): void {
    const now = this.#parts.services.clock.now();
    for (const session of this.#devices.all()) if (session.expiresAt <= now) session.end('expired');
    this.#lookAgain();
  }

  /** Ends the users' sessions whose credential does not hold any more. */
  #lookAgain(at: (session: UserSession) => boolean = () => true): void {
    for (const session of this.#listeners.all()) {
      if (!at(session)) continue;
      void this.#gatekeeper.isCredentialValid(session).then((holds) => {
        if (!holds) session.end('credential');
      });
    }
  }

  async #drain(): Promise<void> {
    const sessions = [...this.#devices.all()];
    for (const { flow } of sessions) flow.pause();
    const until = performance.now() + this.#limits.drainMs;
    const busy = () => sessions.some(({ ended, flow }) => !ended && flow.inFlight > 0);
    while (busy() && performance.now() < until) await after(DRAIN_LOOK_MS);
    await nextPass();
    for (const session of sessions) session.end('stopping');
    for (const wire of this.#wires) wire.close('stopping');
    await nextPass();
  }
}
