import type { EventEmitter } from 'node:events';
import { Aedes, type AedesOptions, type AuthenticateError, type Client, type PublishPacket } from 'aedes';
import type { Log } from '../../domain/log.ts';
import type { Connection } from './connection.ts';
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

/** What the broker asks of the house; everything that is not answered yes is refused. */
export interface BrokerCallbacks {
  signIn(connect: ConnectPacket, wire: Connection): Promise<SignInOutcome>;
  /** The CONNACK is about to be written. Answers false where the connection came to an end meanwhile. */
  beforeConnack(peer: Peer): boolean;
  /** The CONNACK is written: more may be read. */
  afterConnack(peer: Peer): void;
  maySubscribe(peer: Peer, filter: string, qos: number): boolean;
  /** The SUBACK is written. */
  afterSuback(peer: Peer, filter: string, qos: number): void;
  afterUnsubscribe(peer: Peer, filter: string): void;
}

/** Below it the library closes the connection before anything of ours is asked; own topics have five levels. */
const MAX_TOPIC_LEVELS = 32;
/** CONNACK return codes of MQTT 3.1.1. */
const SERVER_UNAVAILABLE = 3;
const NOT_AUTHORIZED = 5;
const MQTT_3_1 = 3;

/**
 * The broker library, with everything that it does by itself taken away: it answers CONNECT, SUBSCRIBE and PING. It routes
 * nothing, so that nobody can be reached but by a write to that one client (`publish.ts`, `users.ts`), and sees no
 * message (`wire.ts`), because it would read the next ones only when all of a batch are acknowledged.
 */
class NonRoutingBroker extends Aedes {
  override publish(_packet: PublishPacket, ...rest: unknown[]): void {
    const done = rest.at(-1);
    if (typeof done === 'function') done();
  }
}

/** Makes the library's broker; connections are handed to it as wires. */
export async function createBroker(
  ends: BrokerCallbacks,
  { limits, meter, log }: { limits: MqttLimits; meter: MqttMeter; log: Log },
): Promise<{ handle(wire: MqttConnection): void; close(): Promise<void> }> {
  const connects = new WeakMap<MqttConnection, Pick<ConnectPacket, 'clean' | 'will'>>();
  const peers = new WeakMap<MqttConnection, Peer>();
  const peerOf = (client: Client): Peer | undefined => peers.get(connectionOf(client));

  const hooks: AedesOptions = {
    preConnect(client, packet, done) {
      const wire = connectionOf(client);
      if (packet.protocolVersion === MQTT_3_1) {
        wire.send(UNACCEPTABLE_VERSION);
        wire.reason = 'refused';
        return done(new Error('only MQTT 3.1.1 is spoken here'), false);
      }
      connects.set(wire, { clean: packet.clean === true, will: packet.will !== undefined });
      // The library sees too few of the packets to know silence.
      wire.setKeepAlive(packet.keepalive ?? 0);
      packet.keepalive = 0;
      if (isJwtUsername(packet.username)) packet.clientId = newUserClientId();
      done(null, true);
    },

    authenticate(client, username, password, done) {
      const wire = connectionOf(client);
      const asked = connects.get(wire) ?? { clean: false, will: true };
      const connect: ConnectPacket = { ...asked, clientId: client.id, username, password };
      void ends.signIn(connect, wire).then((answer) => {
        if (typeof answer === 'string') {
          meter.signIn(answer);
          wire.reason ??= 'refused';
          return done(refusal(answer), false);
        }
        if (!ends.beforeConnack(answer)) return done(refusal('unavailable'), false);
        meter.signIn(answer.kind);
        peers.set(wire, answer);
        done(null, true);
      });
    },

    // Messages do not come this way.
    authorizePublish(_client, _packet, done) {
      done(new Error('not allowed'));
    },

    authorizeSubscribe(client, subscription, done) {
      const peer = peerOf(client);
      const allowed = peer !== undefined && ends.maySubscribe(peer, subscription.topic, subscription.qos);
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
  emitter.on('error', (error: Error) => log.error({ err: error }, 'the broker library failed'));
  broker.on('clientReady', (client) => {
    const peer = peerOf(client);
    if (peer !== undefined) ends.afterConnack(peer);
  });
  broker.on('subscribe', (subscriptions, client) => {
    const peer = peerOf(client);
    if (peer === undefined) return;
    for (const { topic, qos } of subscriptions) if (qos <= 2) ends.afterSuback(peer, topic, qos);
  });
  broker.on('unsubscribe', (filters, client) => {
    const peer = peerOf(client);
    if (peer !== undefined) for (const filter of filters) ends.afterUnsubscribe(peer, filter);
  });
  await broker.listen();

  return {
    handle: (wire) => void broker.handle(wire),
    close: () => new Promise((resolve) => broker.close(() => resolve())),
  };
}

/** Every connection is handed over as a wire, by `handle` above. */
const connectionOf = (client: Client): MqttConnection => client.conn as MqttConnection;

function refusal(why: 'refused' | 'unavailable'): AuthenticateError {
  const returnCode = why === 'refused' ? NOT_AUTHORIZED : SERVER_UNAVAILABLE;
  return Object.assign(new Error('not signed in'), { returnCode }) as AuthenticateError;
}
