import { connect, type Socket } from 'node:net';
import { composeMessage } from '../../src/protocol/envelope.ts';
import { sessionCredentials } from '../../src/protocol/session-token.ts';
import { newNonce, signingKey } from '../../src/protocol/signature.ts';
import { deviceTopic } from '../../src/protocol/topics.ts';
import { connectPacket, publishPacket } from './mqtt-packets.ts';

/*
 * The load process for ingest: devices that sign everything before the clock starts, then keep a fixed number of QoS 1
 * messages in flight. It implements only the MQTT 3.1.1 it needs, to use little processor time: it sends prepared bytes
 * and counts PUBACKs.
 */

export interface LoadDevice {
  deviceId: string;
  tenantId: string;
  secret: string;
  firstSequence: number;
}

export interface Load {
  port: number;
  devices: LoadDevice[];
  /** Messages per device. */
  messages: number;
  inFlight: number;
}

export interface LoadResult {
  acknowledged: number;
  milliseconds: number;
  /** Average size of a PUBLISH packet in bytes. */
  packetBytes: number;
}

/** About 300 bytes of state in 20 keys; each message changes the counter. */
function stateOf(counter: number) {
  const state: Record<string, number | string | boolean> = { counter };
  for (let key = 1; key < 20; key += 1)
    state[`key_${String(key).padStart(2, '0')}`] = key % 3 === 0 ? key * 1.5 : `v${key}`;
  return state;
}

class LoadClient {
  readonly packets: Buffer[] = [];
  readonly #connectBytes: Buffer;
  #socket: Socket | null = null;
  #next = 0;
  #acknowledged = 0;
  #pending: Buffer = Buffer.alloc(0);
  #finished: (() => void) | null = null;

  constructor(device: LoadDevice, messages: number, now: number) {
    const key = signingKey('hmac-sha256', device.secret);
    const session = sessionCredentials({ ...device, key }, now, newNonce());
    this.#connectBytes = connectPacket(session);
    const topic = deviceTopic(device.tenantId, device.deviceId, 'state');
    for (let index = 0; index < messages; index += 1) {
      const envelope = composeMessage({
        deviceId: device.deviceId,
        tenantId: device.tenantId,
        clientId: session.clientId,
        messageId: `${device.deviceId}-${index}`,
        requestId: '',
        sequence: device.firstSequence + index,
        timestamp: now,
        nonce: newNonce(),
        type: 'state',
        payload: { state: stateOf(index + 1) },
        key,
        keyVersion: 1,
      });
      this.packets.push(publishPacket((index % 65_535) + 1, topic, envelope));
    }
  }

  connect(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => socket.write(this.#connectBytes));
      this.#socket = socket;
      socket.once('error', reject);
      socket.once('data', (data: Buffer) => {
        if (data[0] !== 0x20 || data[3] !== 0) return reject(new Error(`CONNACK ${data.toString('hex')}`));
        socket.on('data', (more: Buffer) => this.#received(more));
        resolve();
      });
    });
  }

  run(inFlight: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#finished = resolve;
      this.#socket?.once('close', () => reject(new Error(`closed after ${this.#acknowledged} acknowledgements`)));
      this.#write(inFlight);
    });
  }

  close(): void {
    this.#socket?.removeAllListeners('close');
    this.#socket?.destroy();
  }

  #write(count: number): void {
    const upTo = Math.min(this.#next + count, this.packets.length);
    if (upTo === this.#next) return;
    this.#socket?.write(
      upTo - this.#next === 1
        ? (this.packets[this.#next] as Buffer)
        : Buffer.concat(this.packets.slice(this.#next, upTo)),
    );
    this.#next = upTo;
  }

  #received(data: Buffer): void {
    const bytes = this.#pending.length > 0 ? Buffer.concat([this.#pending, data]) : data;
    let at = 0;
    let count = 0;
    while (at + 2 <= bytes.length) {
      const size = 2 + (bytes[at + 1] as number); // Packets from the broker are short: one byte of length.
      if (at + size > bytes.length) break;
      if (bytes[at] === 0x40) count += 1;
      at += size;
    }
    this.#pending = bytes.subarray(at);
    this.#acknowledged += count;
    if (this.#acknowledged === this.packets.length) this.#finished?.();
    else this.#write(count);
  }
}

process.on('message', async (message: { load?: Load; go?: true }) => {
  if (message.load) {
    const { load } = message;
    const now = Date.now();
    clients = load.devices.map((device) => new LoadClient(device, load.messages, now));
    inFlight = load.inFlight;
    // One by one: concurrent connects are not part of the measurement.
    for (const client of clients) await client.connect(load.port);
    process.send?.({ ready: true });
  }
  if (message.go) {
    const started = performance.now();
    await Promise.all(clients.map((client) => client.run(inFlight)));
    const milliseconds = performance.now() - started;
    const packets = clients.flatMap((client) => client.packets);
    const result: LoadResult = {
      acknowledged: packets.length,
      milliseconds,
      packetBytes: Math.round(packets.reduce((sum, one) => sum + one.length, 0) / packets.length),
    };
    for (const client of clients) client.close();
    process.send?.({ result });
  }
});
process.on('disconnect', () => process.exit(0));

let clients: LoadClient[] = [];
let inFlight = 1;
