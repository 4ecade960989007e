import type { Socket } from 'node:net';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import { composeMessage } from '../../src/protocol/envelope.ts';
import { sessionCredentials } from '../../src/protocol/session-token.ts';
import { newNonce, type SigningKey, signingKey } from '../../src/protocol/signature.ts';
import { type DeviceChannel, deviceTopic } from '../../src/protocol/topics.ts';
import {
  CONNACK,
  connectPacket,
  PUBACK,
  PUBLISH,
  packetReader,
  pubackText,
  publishText,
  readPublish,
  SUBACK,
  subscribePacket,
} from './mqtt-packets.ts';
import { connectSharingReads } from './shared-read.ts';

/** Identity and credentials of a device. */
export interface DeviceIdentity {
  deviceId: Uuid;
  tenantId: Uuid;
  /** Secret of an `hmac-sha256` key. */
  secret: string;
  /** The next sequence number to use. */
  sequence: number;
}

/** The members of a `cmd` message that a load generator needs; the signature is not verified. */
export interface ReceivedCommand {
  commandId: Uuid;
  /** `X-Request-ID` of the request that created the command. */
  requestId: string;
  params: JsonObject;
}

const CMD_PACKET_ID = 65_535;

/** A minimal device: signs, publishes with QoS 1, acknowledges messages on `cmd`. */
export class RawDevice {
  readonly identity: DeviceIdentity;
  onCommand: (command: ReceivedCommand) => void = () => {};
  onRefused: (code: string) => void = (code) => {
    throw new Error(`the service rejected a message: ${code}`);
  };
  onClose: (() => void) | null = null;
  readonly #key: SigningKey;
  #socket: Socket | null = null;
  #clientId = '';
  #lastPacketId = 0;
  /** Packets that leave when everything that was read has been handled, such as a PUBACK and the device's answer. */
  #unsent = '';
  #reading = false;
  readonly #unacknowledged = new Map<number, () => void>();
  readonly #topics = new Map<string, string>();

  constructor(identity: DeviceIdentity) {
    this.identity = identity;
    this.#key = signingKey('hmac-sha256', identity.secret);
    for (const channel of ['hello', 'state', 'cmd_ack', 'heartbeat', 'cmd'] as const) {
      this.#topics.set(channel, deviceTopic(identity.tenantId, identity.deviceId, channel));
    }
  }

  /** Resolves when the broker has accepted the session and, with `commands`, granted the subscription of `cmd`. */
  open(port: number, { commands }: { commands: boolean }): Promise<void> {
    const session = sessionCredentials({ ...this.identity, key: this.#key }, Date.now(), newNonce());
    this.#clientId = session.clientId;
    this.#unacknowledged.clear();
    this.#unsent = '';
    this.#reading = false;
    return new Promise((resolve, reject) => {
      const read = packetReader((type, _flags, body) => {
        if (type === CONNACK) {
          if (body[1] !== 0) reject(new Error(`CONNACK ${body[1]}`));
          else if (commands) socket.write(subscribePacket(CMD_PACKET_ID, this.#topics.get('cmd') as string));
          else resolve();
        } else if (type === SUBACK) {
          if (body[2] === 0x80) reject(new Error('the broker rejected the subscription'));
          else resolve();
        } else if (type === PUBACK) {
          this.#acknowledged(body.readUInt16BE(0));
        } else if (type === PUBLISH) {
          this.#received(body);
        }
      });
      const socket = connectSharingReads(port, (bytes) => {
        this.#reading = true;
        read(bytes);
        this.#reading = false;
        this.#flush();
      });
      this.#socket = socket;
      socket.once('connect', () => socket.write(connectPacket(session)));
      socket.once('error', reject);
      socket.once('close', () => {
        reject(new Error('the broker closed the connection'));
        if (this.#socket === socket) this.onClose?.();
      });
    });
  }

  /** Sequence number of the next message. */
  takeSequence(): number {
    this.identity.sequence += 1;
    return this.identity.sequence - 1;
  }

  /**
   * Packet of a message, signed now, and its packet id, so that messages can be prepared and sent later. A message that
   * is sent again keeps its sequence number, and with it its `message_id`.
   */
  compose(channel: DeviceChannel, payload: JsonObject, sequence = this.takeSequence()): { id: number; packet: string } {
    const { deviceId, tenantId } = this.identity;
    const envelope = composeMessage({
      deviceId,
      tenantId,
      clientId: this.#clientId,
      messageId: `${deviceId}-${sequence}`,
      requestId: '',
      sequence,
      timestamp: Date.now(),
      nonce: newNonce(),
      type: channel,
      payload,
      key: this.#key,
      keyVersion: 1,
    });
    this.#lastPacketId = (this.#lastPacketId % (CMD_PACKET_ID - 1)) + 1;
    const id = this.#lastPacketId;
    return { id, packet: publishText(id, this.#topics.get(channel) as string, envelope) };
  }

  send({ id, packet }: { id: number; packet: string }, acknowledged: () => void): void {
    this.#unacknowledged.set(id, acknowledged);
    this.#unsent += packet;
    if (!this.#reading) this.#flush();
  }

  publish(channel: DeviceChannel, payload: JsonObject, acknowledged: () => void): void {
    this.send(this.compose(channel, payload), acknowledged);
  }

  close(): void {
    this.onClose = null;
    this.#socket?.destroy();
    this.#socket = null;
  }

  #acknowledged(id: number): void {
    const done = this.#unacknowledged.get(id);
    this.#unacknowledged.delete(id);
    done?.();
  }

  #flush(): void {
    if (this.#unsent === '') return;
    this.#socket?.write(this.#unsent, 'latin1');
    this.#unsent = '';
  }

  #received(body: Buffer): void {
    const { id, payload } = readPublish(body);
    this.#unsent += pubackText(id);
    const message = JSON.parse(payload) as {
      message_type: string;
      request_id: string;
      payload: { command_id: Uuid; params: JsonObject; code?: string };
    };
    if (message.message_type === 'error') this.onRefused(`${message.payload.code}`);
    if (message.message_type !== 'cmd') return;
    const { command_id: commandId, params } = message.payload;
    this.onCommand({ commandId, requestId: message.request_id, params });
  }
}
