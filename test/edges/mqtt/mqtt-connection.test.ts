import { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MqttConnection } from '../../../src/edges/mqtt/mqtt-connection.ts';
import { defaultMqttLimits } from '../../../src/edges/mqtt/mqtt-limits.ts';
import { packets } from './client.ts';

const FRAME = 1_000;

/** The other end of a connection: it reads a given number of bytes per millisecond. */
class Peer extends Duplex {
  taken = 0;
  #credit = 0;
  readonly #pendingWrites: { length: number; done: () => void }[] = [];

  constructor() {
    super({ highWaterMark: 16_384 });
  }

  takeIn(bytes: number): void {
    this.#credit = this.#pendingWrites.length === 0 ? 0 : this.#credit + bytes;
    for (
      let [first] = this.#pendingWrites;
      first !== undefined && first.length <= this.#credit;
      [first] = this.#pendingWrites
    ) {
      this.#credit -= first.length;
      this.taken += first.length;
      this.#pendingWrites.shift();
      first.done();
    }
  }

  override _read(): void {}

  override _write({ length }: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#pendingWrites.push({ length, done });
  }
}

let peer: Peer;
let wire: MqttConnection;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  peer = new Peer();
  wire = new MqttConnection(peer as Duplex, { address: 'here', encrypted: false }, defaultMqttLimits);
});
afterEach(() => {
  wire.destroy();
  vi.useRealTimers();
});

/** Each millisecond, sends a frame and lets the peer read `bytes`. */
async function pass(milliseconds: number, bytes: number): Promise<void> {
  for (let n = 0; n < milliseconds && !wire.closing; n += 1) {
    wire.send(Buffer.alloc(FRAME));
    peer.takeIn(bytes);
    // Streams continue in `nextTick` callbacks.
    await new Promise(process.nextTick);
    vi.advanceTimersByTime(1);
  }
}

describe('a peer with a large queue', () => {
  beforeEach(() => {
    for (let n = 0; n < 200; n += 1) wire.send(Buffer.alloc(FRAME));
  });

  it('is not disconnected while it reads a little more than is sent', async () => {
    await pass(2 * defaultMqttLimits.stallMs, 1.02 * FRAME);
    expect(wire.reason).toBeNull();
    expect(peer.taken).toBeGreaterThan(9_500 * FRAME);
  });

  it('is disconnected if it reads nothing', async () => {
    await pass(2 * defaultMqttLimits.stallMs, 0);
    expect(wire.reason).toBe('slow');
  });
});

describe('a connection that is closing', () => {
  const connect = packets.connect({ clientId: 'a', username: 'b', password: 'c' });
  const receive = (bytes: Buffer) => peer.emit('data', bytes);

  it.each([
    ['before its sign-in completed', connect],
    ['before its first byte', Buffer.alloc(0)],
  ])('%s is not read further', (_when, sent) => {
    if (sent.length > 0) receive(sent);
    wire.close('stopping');
    for (const packet of [packets.ping, packets.publish('a', 'b'), packets.disconnect]) receive(packet);
    expect(wire.reason).toBe('stopping');
    expect(wire.read()?.length ?? 0).toBe(sent.length);
  });

  it('with a held packet is not read further', () => {
    receive(connect);
    receive(packets.ping);
    wire.close('stopping');
    wire.resumeReading();
    expect(wire.read()?.length).toBe(connect.length);
  });
});

describe('an open connection', () => {
  const connect = packets.connect({ clientId: 'a', username: 'b', password: 'c' });
  const published: number[] = [];

  beforeEach(() => {
    published.length = 0;
    peer.emit('data', connect);
    wire.read();
    wire.open({ admit: () => 0, onPublish: (packet) => void published.push(packet?.length ?? -1) });
  });

  it.each([1, 3, 1_000])('forwards everything but PUBLISH and PUBACK, received in pieces of %d bytes', (step) => {
    const puback = Buffer.from([0x40, 2, 0, 7]);
    const publish = packets.publish('a', 'b', { id: 1 });
    const bytes = Buffer.concat([puback, packets.ping, puback, publish, puback, packets.disconnect, puback]);
    for (let at = 0; at < bytes.length; at += step) peer.emit('data', bytes.subarray(at, at + step));
    const forwarded: Buffer[] = [];
    for (let chunk = wire.read(); chunk !== null; chunk = wire.read()) forwarded.push(chunk);
    expect(Buffer.concat(forwarded)).toEqual(Buffer.concat([packets.ping, packets.disconnect]));
    expect(published).toEqual([publish.length - 2]);
  });
});
