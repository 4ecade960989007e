import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectSocket, Socket } from 'node:net';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { expect } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import { checkCloudMessage, composeMessage, type OutgoingMessage } from '../../../src/protocol/envelope.ts';
import type { CloudPayload } from '../../../src/protocol/payloads.ts';
import { sessionCredentials } from '../../../src/protocol/session-token.ts';
import { newNonce, type SigningKey, signingKey, verifyingKey } from '../../../src/protocol/signature.ts';
import { type Channel, type DeviceChannel, deviceTopic } from '../../../src/protocol/topics.ts';
import { schemaViolation } from '../../support/asyncapi-validation.ts';
import { eventLoopTurns, eventually as untilTrue } from '../../support/clock.ts';
import type { TestDevice } from './edge-harness.ts';

/** The properties of the service that a client needs. */
export interface Around {
  readonly now: number;
  readonly cloudPublicKey: string;
}

/** Repeats `check` until it does not throw; for effects on the other side of a socket. */
export async function eventually(check: () => unknown, withinMs?: number): Promise<void> {
  await untilTrue(async () => {
    await check();
    return true;
  }, withinMs);
}

export type ReceivedMessage = CloudPayload & {
  messageId: string;
  requestId: string;
  sequence: number;
  text: string;
  qos: number;
};

/** A device that uses the MQTT client library: it signs, publishes, and verifies the messages it receives. */
export class Device {
  readonly received: ReceivedMessage[] = [];
  readonly mqtt: MqttClient;
  readonly clientId: string;
  readonly device: TestDevice;
  readonly #harness: Around;
  readonly #key: SigningKey;
  sequence = 0;

  private constructor(mqtt: MqttClient, clientId: string, device: TestDevice, service: Around) {
    this.mqtt = mqtt;
    this.clientId = clientId;
    this.device = device;
    this.#harness = service;
    this.#key = signingKey(device.alg, device.secret);
    if (mqtt.stream instanceof Socket) mqtt.stream.setNoDelay(true);
    mqtt.on('error', () => {});
    mqtt.on('message', (_topic, payload, packet) => this.#receive(payload, packet.qos));
  }

  static async connect(
    service: Around,
    device: TestDevice,
    port: number,
    options: IClientOptions & { url?: string } = {},
  ): Promise<Device> {
    const { clientId, username, password } = credentials(service, device);
    const { url = `mqtt://127.0.0.1:${port}`, ...rest } = options;
    const mqtt = await connectAsync(url, { clientId, username, password, ...quiet, ...rest }, false);
    return new Device(mqtt, rest.clientId ?? clientId, device, service);
  }

  topic(channel: Channel): string {
    return deviceTopic(this.device.tenantId, this.device.deviceId, channel);
  }

  /** Resolves when the edge has answered a ping: it has read everything sent before, and its responses have arrived. */
  async ping(): Promise<void> {
    const answered = new Promise<void>((resolve) => {
      const look = ({ cmd }: { cmd: string }): void => {
        if (cmd !== 'pingresp') return;
        this.mqtt.off('packetreceive', look);
        resolve();
      };
      this.mqtt.on('packetreceive', look);
    });
    this.mqtt.sendPing();
    await answered;
    await eventLoopTurns();
  }

  async listen(): Promise<void> {
    await this.mqtt.subscribeAsync(this.topic('cmd'), { qos: 1 });
  }

  compose(channel: DeviceChannel, payload: JsonObject, changes: Partial<OutgoingMessage> = {}): string {
    return composeMessage({
      deviceId: this.device.deviceId,
      tenantId: this.device.tenantId,
      clientId: this.clientId,
      messageId: randomUUID(),
      requestId: '',
      sequence: changes.sequence ?? ++this.sequence,
      timestamp: this.#harness.now,
      nonce: newNonce(),
      type: channel,
      payload,
      keyVersion: this.device.keyVersion,
      key: this.#key,
      ...changes,
    });
  }

  /** The same client for a session on another socket. */
  as(device: TestDevice, clientId: string): Device {
    return new Device(this.mqtt, clientId, device, this.#harness);
  }

  /** Resolves when the message is acknowledged (QoS 1) or written (QoS 0). */
  async send(
    channel: DeviceChannel,
    payload: JsonObject,
    changes: Partial<OutgoingMessage> = {},
    qos: 0 | 1 = 1,
  ): Promise<void> {
    await this.mqtt.publishAsync(this.topic(channel), this.compose(channel, payload, changes), { qos });
  }

  closed(): Promise<void> {
    return gone(this.mqtt);
  }

  #receive(payload: Buffer, qos: number): void {
    const { device } = this;
    const key =
      device.alg === 'ed25519'
        ? verifyingKey('ed25519', this.#harness.cloudPublicKey)
        : verifyingKey('hmac-sha256', device.secret);
    const checked = checkCloudMessage(
      payload,
      { deviceId: device.deviceId, tenantId: device.tenantId, clientId: this.clientId, keys: [key] },
      this.#harness.now,
    );
    if (!checked.ok || !checked.content.ok) throw new Error('a message of the cloud is not in order');
    const fault = schemaViolation(JSON.parse(payload.toString()));
    if (fault !== null) throw new Error(fault);
    const { fields, content } = checked;
    this.received.push({
      ...content.value,
      messageId: fields.message_id,
      requestId: fields.request_id,
      sequence: fields.sequence_number,
      text: payload.toString(),
      qos,
    });
  }
}

export const quiet: IClientOptions = { reconnectPeriod: 0, connectTimeout: 15_000, clean: true };

export function credentials(service: Around, device: TestDevice, at = service.now) {
  return sessionCredentials({ ...device, key: signingKey(device.alg, device.secret) }, at, newNonce());
}

export async function gone(mqtt: MqttClient): Promise<void> {
  if (mqtt.connected) await new Promise<void>((resolve) => mqtt.once('close', () => resolve()));
}

/** The return code of the CONNACK, or null if the connection was closed without one. */
export async function connack(port: number, options: IClientOptions): Promise<number | null> {
  try {
    const mqtt = await connectAsync(`mqtt://127.0.0.1:${port}`, { ...quiet, ...options }, false);
    await mqtt.endAsync(true);
    return 0;
  } catch (error) {
    const { code } = error as { code?: number };
    return typeof code === 'number' ? code : null;
  }
}

/** A raw connection, for bytes that no client library would send. */
export class Raw {
  readonly socket: Socket;
  bytes: Buffer = Buffer.alloc(0);
  ended = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.bytes = Buffer.concat([this.bytes, chunk]);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.ended = true;
    });
  }

  static async open(port: number): Promise<Raw> {
    const socket = connectSocket(port, '127.0.0.1');
    await once(socket, 'connect');
    return new Raw(socket);
  }

  /** A connection that is signed in as the device. */
  static async signedIn(service: Around, device: TestDevice, port: number): Promise<{ raw: Raw; clientId: string }> {
    const raw = await Raw.open(port);
    const { clientId, username, password } = credentials(service, device);
    raw.socket.write(packets.connect({ clientId, username, password }));
    await eventually(() => expect([...raw.bytes.subarray(0, 4)]).toEqual([0x20, 2, 0, 0]));
    raw.bytes = Buffer.alloc(0);
    return { raw, clientId };
  }

  async closed(): Promise<void> {
    await eventually(() => expect(this.ended).toBe(true));
  }
}

const text = (value: string | Buffer): Buffer => {
  const bytes = Buffer.isBuffer(value) ? value : Buffer.from(value);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
};

export function packet(head: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([head, ...remaining(body.length)]), body]);
}

export function remaining(length: number): number[] {
  const bytes: number[] = [];
  for (let left = length; ; ) {
    const low = left & 0x7f;
    left >>= 7;
    bytes.push(left > 0 ? low | 0x80 : low);
    if (left === 0) return bytes;
  }
}

export const packets = {
  connect(options: {
    clientId: string | Buffer;
    username?: string | Buffer;
    password?: string;
    version?: number;
    flags?: number;
    keepalive?: number;
  }): Buffer {
    const { clientId, username, password, version = 4, keepalive = 0 } = options;
    const flags = options.flags ?? 0x02 | (username === undefined ? 0 : 0x80) | (password === undefined ? 0 : 0x40);
    return packet(
      0x10,
      text(version === 3 ? 'MQIsdp' : 'MQTT'),
      Buffer.from([version, flags, keepalive >> 8, keepalive & 0xff]),
      ...(version === 5 ? [Buffer.from([0])] : []),
      text(clientId),
      ...(username === undefined ? [] : [text(username)]),
      ...(password === undefined ? [] : [text(password)]),
    );
  },
  publish(topic: string | Buffer, payload: string, { qos = 1, id = 1, retain = false } = {}): Buffer {
    const packetId = Buffer.from([id >> 8, id & 0xff]);
    return packet(
      0x30 | (qos << 1) | (retain ? 1 : 0),
      text(topic),
      ...(qos > 0 ? [packetId] : []),
      Buffer.from(payload),
    );
  },
  subscribe: (id: number, ...filters: (string | Buffer)[]): Buffer =>
    packet(0x82, Buffer.from([id >> 8, id & 0xff]), ...filters.flatMap((f) => [text(f), Buffer.from([1])])),
  ping: Buffer.from([0xc0, 0]),
  disconnect: Buffer.from([0xe0, 0]),
};
