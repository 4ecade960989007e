import type { JsonObject } from '../../../src/domain/values.ts';
import { nextPacketId } from '../../../src/edges/mqtt/packets.ts';
import type { SigningKey } from '../../../src/protocol/signature.ts';
import type { DeviceChannel } from '../../../src/protocol/topics.ts';
import { encoded, QOS_1, type Violation, violations } from '../network/packets.ts';
import type { ClientConnection } from '../service/mqtt-listener.ts';
import type { Random } from '../world/random.ts';
import type { World } from '../world/world.ts';

/** A message that the device sends until it is acknowledged; kept over connections. */
export interface Owed {
  sequence: number;
  messageId: string;
  channel: DeviceChannel;
  payload: JsonObject;
  acknowledged(): void;
}

/** The credentials that open a session. */
export interface SignIn {
  clientId: string;
  username: string;
  password: string;
  keepAliveS: number;
  keyVersion: number;
  key: SigningKey;
}

/** A device's end of an MQTT connection: encodes its packets and tracks those in flight. */
export class Session {
  readonly clientId: string;
  readonly keyVersion: number;
  readonly key: SigningKey;
  readonly connection: ClientConnection;
  /** The packet that opens it. */
  readonly connect: Buffer;
  /** The subscription was granted and `hello` was answered. */
  ready = false;
  /** A PINGREQ is unanswered. */
  pinging = false;
  /** The protocol was violated on it: nothing more is sent, and the service has to close it. */
  broken = false;
  readonly #world: World;
  #sentAt = 0;
  #packetId = 0;
  /** The messages in flight by packet identifier, in the order of sending. */
  readonly #underWay = new Map<number, Owed>();

  /** Sends the CONNECT. */
  constructor(world: World, connection: ClientConnection, signIn: SignIn) {
    const { clientId, username, password, keepAliveS, keyVersion, key } = signIn;
    this.#world = world;
    this.connection = connection;
    this.clientId = clientId;
    this.keyVersion = keyVersion;
    this.key = key;
    const credentials = { clientId, username, password: Buffer.from(password) };
    this.connect = encoded({ cmd: 'connect', clean: true, keepalive: keepAliveS, ...credentials });
    this.#write(this.connect);
  }

  /** Milliseconds since its last packet. */
  get idleMs(): number {
    return this.#world.scheduler.now - this.#sentAt;
  }

  subscribe(topic: string): void {
    const messageId = this.#nextPacketId();
    this.#write(encoded({ cmd: 'subscribe', messageId, subscriptions: [{ topic, qos: 1 }] }));
  }

  /** Sends messages in one write, each in a QoS 1 PUBLISH. */
  publish(messages: readonly { owed: Owed; topic: string; text: string }[]): void {
    const frames = messages.map(({ owed, topic, text }) => {
      const messageId = this.#nextPacketId();
      this.#underWay.set(messageId, owed);
      return encoded({ ...QOS_1, topic, payload: text, messageId });
    });
    if (frames.length > 0) this.#write(Buffer.concat(frames));
  }

  /**
   * Handles a PUBACK, which must be that of the oldest message in flight [MQTT-4.6.0-2]; returns the acknowledged
   * message.
   */
  settle(messageId: number): Owed | undefined {
    const [oldest] = this.#underWay.keys();
    if (messageId !== oldest) {
      this.#world.fail(
        'pubacks-keep-publish-order',
        `${this.clientId}: PUBACK of ${messageId} before that of ${oldest}`,
      );
    }
    const owed = this.#underWay.get(messageId);
    this.#underWay.delete(messageId);
    return owed;
  }

  acknowledge(messageId: number): void {
    this.#write(encoded({ cmd: 'puback', messageId }));
  }

  ping(): void {
    this.pinging = true;
    this.#write(encoded({ cmd: 'pingreq' }));
  }

  /** Closes it, with or without a DISCONNECT. */
  end(disconnects: boolean): void {
    if (this.broken) return;
    if (disconnects) this.#write(encoded({ cmd: 'disconnect' }));
    this.connection.end();
  }

  /** Sends a protocol violation. */
  violate(how: Violation, random: Random): void {
    this.connection.misbehaves(how === 'halfPacket' ? 'later' : 'at once');
    this.#write(how === 'secondConnect' ? this.connect : violations[how](random));
    this.broken = true;
  }

  #nextPacketId(): number {
    this.#packetId = nextPacketId(this.#packetId);
    return this.#packetId;
  }

  #write(bytes: Buffer): void {
    if (this.broken) return;
    this.#sentAt = this.#world.scheduler.now;
    this.connection.write(bytes);
  }
}
