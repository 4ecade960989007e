import type { EventEmitter } from 'node:events';
import {
  Aedes,
  type ConnectPacket as AedesConnectPacket,
  type AuthenticateError,
  type Client,
  type PublishPacket,
  type Subscription,
} from 'aedes';
import type { Log } from '../../domain/log.ts';
import type { ClientConnection } from './client-connection.ts';
import {
  type ConnectPacket,
  connectFlagsOf,
  isByCertificate,
  isJwtUsername,
  isSupportedVersion,
  NO_CONNECT,
  newCertificateClientId,
  newUserClientId,
} from './connect-checks.ts';
import type { Peer, SignInOutcome } from './mqtt-authenticator.ts';
import type { MqttConnection } from './mqtt-connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { MqttMeter } from './mqtt-meter.ts';
import { UNACCEPTABLE_VERSION } from './packets.ts';

/** Decisions and notifications that the broker leaves to the session layer; everything not permitted is refused. */
export interface BrokerCallbacks {
  signIn(connect: ConnectPacket, connection: ClientConnection): Promise<SignInOutcome>;
  /** The CONNACK is about to be written. False if the session ended during the sign-in. */
  beforeConnack(peer: Peer): boolean;
  /** The CONNACK is written: further packets may be read. */
  afterConnack(peer: Peer): void;
  maySubscribe(peer: Peer, filter: string, qos: number): boolean;
  /** The SUBACK is written. */
  afterSuback(peer: Peer, filter: string, qos: number): void;
  afterUnsubscribe(peer: Peer, filter: string): void;
}

/** With more levels, aedes closes the connection before it calls a hook; the service's topics have five. */
const MAX_TOPIC_LEVELS = 32;
/** CONNACK return codes of MQTT 3.1.1. */
const SERVER_UNAVAILABLE = 3;
const NOT_AUTHORIZED = 5;

/**
 * Aedes without routing: it answers CONNECT, SUBSCRIBE, UNSUBSCRIBE and PINGREQ only. A client is reached only by a
 * write to that one client (`command-writer.ts`, `user-publisher.ts`). PUBLISH packets bypass aedes
 * (`mqtt-connection.ts`), because it reads on only after all messages of a batch are acknowledged. Decision 5 lists
 * each bypass with its reason.
 */
class NonRoutingBroker extends Aedes {
  override publish(_packet: PublishPacket, ...rest: unknown[]): void {
    const done = rest.at(-1);
    if (typeof done === 'function') done();
  }
}

type Credentials = Pick<ConnectPacket, 'clientId' | 'username' | 'password'>;

interface BrokerParts {
  limits: MqttLimits;
  meter: MqttMeter;
  log: Log;
}

/** The aedes broker with this service's hooks; its connections are `MqttConnection`s. */
export class Broker {
  readonly #callbacks: BrokerCallbacks;
  readonly #meter: MqttMeter;
  readonly #broker: NonRoutingBroker;
  readonly #connects = new WeakMap<MqttConnection, Omit<ConnectPacket, keyof Credentials>>();
  readonly #peers = new WeakMap<MqttConnection, Peer>();

  private constructor(callbacks: BrokerCallbacks, { limits, meter, log }: BrokerParts) {
    this.#callbacks = callbacks;
    this.#meter = meter;
    this.#broker = new NonRoutingBroker({
      preConnect: (client, packet, done) => this.#preConnect(connectionOf(client), packet, done),
      authenticate: (client, username, password, done) =>
        void this.#authenticate(connectionOf(client), { clientId: client.id, username, password }, done),
      // PUBLISH packets bypass aedes.
      authorizePublish: (_client, _packet, done) => done(new Error('not allowed')),
      authorizeSubscribe: (client, subscription, done) =>
        done(null, this.#maySubscribe(client, subscription) ? subscription : null),
      authorizeForward: () => null,
      concurrency: 0,
      connectTimeout: limits.connectMs,
      drainTimeout: limits.stallMs,
      maxTopicLevels: MAX_TOPIC_LEVELS,
    });
    const emitter: EventEmitter = this.#broker;
    emitter.on('error', (error: Error) => log.error({ err: error }, 'mqtt broker error'));
    this.#forwardEvents();
  }

  static async open(callbacks: BrokerCallbacks, parts: BrokerParts): Promise<Broker> {
    const broker = new Broker(callbacks, parts);
    await broker.#broker.listen();
    return broker;
  }

  handle(connection: MqttConnection): void {
    this.#broker.handle(connection);
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#broker.close(() => resolve()));
  }

  #preConnect(
    connection: MqttConnection,
    packet: AedesConnectPacket,
    done: (error: Error | null, success: boolean) => void,
  ): void {
    if (!isSupportedVersion(packet)) {
      connection.send(UNACCEPTABLE_VERSION);
      connection.reason = 'refused';
      done(new Error('only MQTT 3.1.1 is supported'), false);
      return;
    }
    const byCertificate = isByCertificate(packet, connection.certificate);
    const certificateClientId = byCertificate ? (packet.clientId ?? '') : null;
    this.#connects.set(connection, { ...connectFlagsOf(packet), certificateClientId });
    // Aedes sees too few of the packets to enforce the keep-alive.
    connection.setKeepAlive(packet.keepalive ?? 0);
    packet.keepalive = 0;
    if (isJwtUsername(packet.username)) packet.clientId = newUserClientId();
    else if (byCertificate) packet.clientId = newCertificateClientId();
    done(null, true);
  }

  async #authenticate(
    connection: MqttConnection,
    credentials: Credentials,
    done: (error: AuthenticateError | null, success: boolean | null) => void,
  ): Promise<void> {
    const flags = this.#connects.get(connection) ?? { ...NO_CONNECT, certificateClientId: null };
    const outcome = await this.#callbacks.signIn({ ...flags, ...credentials }, connection);
    if (typeof outcome === 'string') {
      this.#meter.signIn(outcome);
      connection.reason ??= 'refused';
      return done(refusal(outcome), false);
    }
    if (!this.#callbacks.beforeConnack(outcome)) return done(refusal('unavailable'), false);
    this.#meter.signIn(outcome.kind);
    this.#peers.set(connection, outcome);
    done(null, true);
  }

  #maySubscribe(client: Client, { topic, qos }: Subscription): boolean {
    const peer = this.#peerOf(client);
    return peer !== undefined && this.#callbacks.maySubscribe(peer, topic, qos);
  }

  #forwardEvents(): void {
    const callbacks = this.#callbacks;
    this.#broker.on('clientReady', (client) => {
      const peer = this.#peerOf(client);
      if (peer !== undefined) callbacks.afterConnack(peer);
    });
    this.#broker.on('subscribe', (subscriptions, client) => {
      const peer = this.#peerOf(client);
      if (peer === undefined) return;
      for (const { topic, qos } of subscriptions) if (qos <= 2) callbacks.afterSuback(peer, topic, qos);
    });
    this.#broker.on('unsubscribe', (filters, client) => {
      const peer = this.#peerOf(client);
      if (peer !== undefined) for (const filter of filters) callbacks.afterUnsubscribe(peer, filter);
    });
  }

  #peerOf(client: Client): Peer | undefined {
    return this.#peers.get(connectionOf(client));
  }
}

/** Every client's stream is the `MqttConnection` that was passed to `handle`. */
const connectionOf = (client: Client): MqttConnection => client.conn as MqttConnection;

function refusal(outcome: Exclude<SignInOutcome, Peer>): AuthenticateError {
  const returnCode = outcome === 'unavailable' ? SERVER_UNAVAILABLE : NOT_AUTHORIZED;
  return Object.assign(new Error('not signed in'), { returnCode }) as AuthenticateError;
}
