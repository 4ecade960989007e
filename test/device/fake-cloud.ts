// The part of the service that a device talks to: a minimal broker that knows one device and records its messages.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Aedes, type Client } from 'aedes';
import type { SigningAlg } from '../../src/domain/device-key.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import type { CanonicalFields, MessageIdentity } from '../../src/protocol/canonical.ts';
import { type CheckedMessage, checkMessage, composeMessage } from '../../src/protocol/envelope.ts';
import type { CmdAckPayload, CmdPayload, DevicePayload } from '../../src/protocol/payloads.ts';
import { parseSessionToken, verifySession } from '../../src/protocol/session-token.ts';
import {
  cloudPublicKey,
  newDeviceSecret,
  newNonce,
  publicKeyFromSeed,
  signingKey,
  verifyingKey,
} from '../../src/protocol/signature.ts';
import { type CloudMessageType, deviceTopic, isDeviceChannel, parseTopic } from '../../src/protocol/topics.ts';

export type ReceivedMessage = CheckedMessage<DevicePayload, MessageIdentity> & {
  sent: CanonicalFields;
  channel: string;
  dup: boolean;
};

export class SmallCloud {
  readonly tenantId = randomUUID();
  readonly deviceId = randomUUID();
  secret = newDeviceSecret();
  keyVersion = 1;
  readonly #cloudKey = signingKey('ed25519', newDeviceSecret());
  readonly alg: SigningAlg;
  readonly #server;
  readonly #sockets = new Set<Socket>();
  #client: Client | null = null;
  #cloudSequence = 0;

  /** Valid messages received, in order. */
  readonly received: ReceivedMessage[] = [];
  /** Client identifiers that signed in. */
  readonly sessions: string[] = [];
  /** Refused sign-ins. */
  refusedSignIns = 0;
  /** Codes of invalid messages. */
  readonly refused: string[] = [];
  lastSequence = 0;
  heartbeatS = 60;
  serverTime = () => Date.now();
  /** Whether messages other than hello are acknowledged. */
  acknowledges = true;
  answersHello = true;
  grantsSubscription = true;
  port = 0;

  private constructor(alg: SigningAlg, broker: Aedes) {
    this.alg = alg;
    broker.authenticate = (client, username, password, done) => {
      const token = parseSessionToken(client.id);
      const key = verifyingKey(alg, alg === 'ed25519' ? publicKeyFromSeed(this.secret) : this.secret);
      const known = token !== null && token.deviceId === this.deviceId && !this.sessions.includes(client.id);
      const good = known && username === this.tenantId && verifySession(token, username, String(password), key);
      if (!good) {
        this.refusedSignIns++;
        done(Object.assign(new Error('no'), { returnCode: 5 }), false);
        return;
      }
      this.sessions.push(client.id);
      this.#client = client;
      this.#cloudSequence = 0;
      done(null, true);
    };
    broker.authorizeSubscribe = (_client, subscription, done) => {
      const own = subscription.topic === deviceTopic(this.tenantId, this.deviceId, 'cmd');
      done(null, own && this.grantsSubscription ? subscription : null);
    };
    broker.authorizePublish = (client, packet, done) => {
      if (client === null) return done(null);
      const message = this.#receive(client.id, packet.topic, packet.payload as Buffer, packet.dup);
      // The PUBACK is sent only when `done` is called.
      if (this.acknowledges || message?.channel === 'hello') done(null);
      if (message?.channel === 'hello' && this.answersHello) {
        const { fields } = message;
        this.send('hello_ack', this.helloAck(), { requestId: fields.message_id });
      }
    };
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('error', () => {});
      broker.handle(socket);
    });
  }

  static async start(alg: SigningAlg = 'hmac-sha256'): Promise<SmallCloud> {
    const cloud = new SmallCloud(alg, await Aedes.createBroker({ concurrency: 0 }));
    await cloud.listen();
    return cloud;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  /** The fields of a registration response. */
  registration() {
    return {
      mqttUrl: `mqtt://127.0.0.1:${this.port}`,
      tenantId: this.tenantId,
      deviceId: this.deviceId,
      secret: this.secret,
      signingAlg: this.alg,
      keyVersion: this.keyVersion,
      cloudPublicKeys: [cloudPublicKey(this.#cloudKey)],
    };
  }

  helloAck(): JsonObject {
    return {
      server_time: this.serverTime(),
      last_sequence: this.lastSequence,
      heartbeat_s: this.heartbeatS,
      key_version: this.keyVersion,
      cloud_public_keys: [cloudPublicKey(this.#cloudKey)],
    };
  }

  /** Sends on `cmd` in the current session. Returns the message id. */
  send(
    type: CloudMessageType,
    payload: JsonObject,
    change: Partial<Parameters<typeof composeMessage>[0]> = {},
  ): string {
    if (this.#client === null) throw new Error('no session');
    const messageId = change.messageId ?? randomUUID();
    const text = composeMessage({
      deviceId: this.deviceId,
      tenantId: this.tenantId,
      clientId: this.#client.id,
      messageId,
      requestId: randomUUID(),
      sequence: ++this.#cloudSequence,
      timestamp: this.serverTime(),
      nonce: newNonce(),
      type,
      payload,
      keyVersion: this.keyVersion,
      key: this.alg === 'ed25519' ? this.#cloudKey : signingKey(this.alg, this.secret),
      ...change,
    });
    this.sendText(text);
    return messageId;
  }

  sendText(text: string): void {
    const topic = deviceTopic(this.tenantId, this.deviceId, 'cmd');
    const packet = { cmd: 'publish', topic, payload: Buffer.from(text), qos: 1, retain: false, dup: false } as const;
    this.#client?.publish(packet, () => {});
  }

  command(action: string, params: JsonObject = {}, change: Partial<CmdPayload> = {}): string {
    const now = this.serverTime();
    const payload = { command_id: randomUUID(), action, params, issued_at: now, expires_at: now + 60_000, ...change };
    this.send('cmd', { ...payload });
    return payload.command_id;
  }

  /** The payloads of one channel, in order. */
  payloads(channel: string): JsonObject[] {
    return this.received.filter((message) => message.channel === channel).map((message) => message.payload);
  }

  acks(commandId?: string): CmdAckPayload[] {
    const all = this.payloads('cmd_ack') as unknown as CmdAckPayload[];
    return commandId === undefined ? all : all.filter((ack) => ack.command_id === commandId);
  }

  /** Closes every connection; new ones are accepted. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Stops listening until `listen`. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  #receive(clientId: string, topic: string, bytes: Buffer, dup: boolean): ReceivedMessage | null {
    const channel = parseTopic(topic)?.channel ?? '';
    if (!isDeviceChannel(channel)) throw new Error(`a device wrote to ${topic}`);
    const key = verifyingKey(this.alg, this.alg === 'ed25519' ? publicKeyFromSeed(this.secret) : this.secret);
    const session = { deviceId: this.deviceId, tenantId: this.tenantId, clientId, key, keyVersion: this.keyVersion };
    const checked = checkMessage(bytes, session, channel, this.serverTime());
    if (!checked.ok || !checked.content.ok) {
      this.refused.push(checked.ok ? 'PAYLOAD_INVALID' : checked.code);
      return null;
    }
    const sent = JSON.parse(bytes.toString()) as CanonicalFields;
    const message = { ...checked, sent, channel, dup };
    this.received.push(message);
    if (this.acknowledges && channel !== 'hello') {
      this.lastSequence = Math.max(this.lastSequence, message.fields.sequence_number);
    }
    return message;
  }
}
