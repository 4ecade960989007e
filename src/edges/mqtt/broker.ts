import type { EventEmitter } from 'node:events';
import { Aedes, type AedesOptions, type AuthenticateError, type Client, type PublishPacket } from 'aedes';
import type { Log } from '../../domain/log.ts';
import type { ClientConnection } from './client-connection.ts';
import {
  type ConnectPacket,
  isJwtUsername,
  newUserClientId,
  type Peer,
  type SignInOutcome,
} from './mqtt-authenticator.ts';
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
/** Protocol level. */
const MQTT_3_1 = 3;

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

/** Creates the aedes broker; its connections are `MqttConnection`s. */
export async function createBroker(
  callbacks: BrokerCallbacks,
  { limits, meter, log }: { limits: MqttLimits; meter: MqttMeter; log: Log },
): Promise<{ handle(connection: MqttConnection): void; close(): Promise<void> }> {
  const connects = new WeakMap<MqttConnection, Pick<ConnectPacket, 'clean' | 'will'>>();
  const peers = new WeakMap<MqttConnection, Peer>();
  const peerOf = (client: Client): Peer | undefined => peers.get(connectionOf(client));

  const hooks: AedesOptions = {
    preConnect(client, packet, done) {
      const connection = connectionOf(client);
      if (packet.protocolVersion === MQTT_3_1) {
        // Aedes would accept it.
        connection.send(UNACCEPTABLE_VERSION);
        connection.reason = 'refused';
        return done(new Error('only MQTT 3.1.1 is supported'), false);
      }
      connects.set(connection, { clean: packet.clean === true, will: packet.will !== undefined });
      // Aedes sees too few of the packets to enforce the keep-alive.
      connection.setKeepAlive(packet.keepalive ?? 0);
      packet.keepalive = 0;
      if (isJwtUsername(packet.username)) packet.clientId = newUserClientId();
      done(null, true);
    },

    authenticate(client, username, password, done) {
      const connection = connectionOf(client);
      const flags = connects.get(connection) ?? { clean: false, will: true };
      const connect: ConnectPacket = { ...flags, clientId: client.id, username, password };
      void callbacks.signIn(connect, connection).then((outcome) => {
        if (typeof outcome === 'string') {
          meter.signIn(outcome);
          connection.reason ??= 'refused';
          return done(refusal(outcome), false);
        }
        if (!callbacks.beforeConnack(outcome)) return done(refusal('unavailable'), false);
        meter.signIn(outcome.kind);
        peers.set(connection, outcome);
        done(null, true);
      });
    },

    // PUBLISH packets bypass aedes.
    authorizePublish(_client, _packet, done) {
      done(new Error('not allowed'));
    },

    authorizeSubscribe(client, subscription, done) {
      const peer = peerOf(client);
      const allowed = peer !== undefined && callbacks.maySubscribe(peer, subscription.topic, subscription.qos);
      done(null, allowed ? subscription : null);
    },

    authorizeForward: () => null,
  };

  const broker = new NonRoutingBroker({
    ...hooks,
    concurrency: 0,
    connectTimeout: limits.connectMs,
    drainTimeout: limits.stallMs,
    maxTopicLevels: MAX_TOPIC_LEVELS,
  });
  const emitter: EventEmitter = broker;
  emitter.on('error', (error: Error) => log.error({ err: error }, 'mqtt broker error'));
  broker.on('clientReady', (client) => {
    const peer = peerOf(client);
    if (peer !== undefined) callbacks.afterConnack(peer);
  });
  broker.on('subscribe', (subscriptions, client) => {
    const peer = peerOf(client);
    if (peer === undefined) return;
    for (const { topic, qos } of subscriptions) if (qos <= 2) callbacks.afterSuback(peer, topic, qos);
  });
  broker.on('unsubscribe', (filters, client) => {
    const peer = peerOf(client);
    if (peer !== undefined) for (const filter of filters) callbacks.afterUnsubscribe(peer, filter);
  });
  await broker.listen();

  return {
    handle: (connection) => void broker.handle(connection),
    close: () => new Promise((resolve) => broker.close(() => resolve())),
  };
}

/** Every client's stream is the `MqttConnection` that was passed to `handle`. */
const connectionOf = (client: Client): MqttConnection => client.conn as MqttConnection;

function refusal(outcome: 'refused' | 'unavailable'): AuthenticateError {
  const returnCode = outcome === 'refused' ? NOT_AUTHORIZED : SERVER_UNAVAILABLE;
  return Object.assign(new Error('not signed in'), { returnCode }) as AuthenticateError;
}
