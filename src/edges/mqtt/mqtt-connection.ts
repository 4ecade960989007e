import { Duplex } from 'node:stream';
import type { Connection, PacketHandler } from './connection.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { CloseReason } from './mqtt-meter.ts';

export const CONNECT = 1;
export const PUBLISH = 3;
/** SUBSCRIBE and UNSUBSCRIBE: a packet identifier and at least one topic filter [MQTT-3.8.3-3, MQTT-3.10.3-2]. */
const filterTypes: ReadonlySet<number> = new Set([8, 10]);
const PACKET_ID_BYTES = 2;
/** PUBLISH, PUBACK, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT: nothing of QoS 2, and no second CONNECT. */
const clientTypes: ReadonlySet<number> = new Set([PUBLISH, 4, 8, 10, 12, 14]);
/** A PUBACK's fixed header, and the length of the whole packet. */
const PUBACK_HEADER = [0x40, 2] as const;
const PUBACK_BYTES = 4;
const MAX_LENGTH_SHIFT = 21;
const NOTHING = Buffer.alloc(0);

/**
 * One peer's bytes, between its socket (TCP, TLS or WebSocket) and the broker library, which knows no limits. Packets
 * are measured by their fixed header while they stream, so that a long one ends the connection before it is buffered;
 * nothing is read beyond the CONNECT until it is answered, and afterwards as the gate allows. A PUBLISH goes to the
 * gate, a PUBACK to nobody (nothing waits for it), everything else to the library. What waits to be sent is bounded, and
 * a peer that takes nothing, or says nothing for longer than its keep-alive allows, is cut.
 */
export class MqttConnection extends Duplex implements Connection {
  readonly address: string;
  /** Set before the wire ends for a reason of ours. */
  reason: CloseReason | null = null;

  readonly #source: Duplex;
  readonly #limits: MqttLimits;
  #phase: 'connect' | 'signing-in' | 'open' | 'closed' = 'connect';
  #gate: PacketHandler | null = null;

  // The packet under way: its type and flags, how many of its bytes are still to come, and its length as far as it is
  // known; of a PUBLISH also what came of it in earlier reads.
  #type = 0;
  #flags = 0;
  #parts: Buffer[] = [];
  #remaining = 0;
  #headerBytes = 0;
  #length = 0;
  /** What was read and not yet let through; the source is paused while it is there. */
  #held: Buffer | null = null;
  #holdTimer: NodeJS.Timeout | null = null;
  #readerFull = false;
  #ended = false;

  #stalled: (() => void) | null = null;
  #stallTimer: NodeJS.Timeout | null = null;
  #heardAt = performance.now();
  #silenceTimer: NodeJS.Timeout | null = null;

  constructor(source: Duplex, address: string, limits: MqttLimits) {
    super({ allowHalfOpen: false });
    this.#source = source;
    this.address = address;
    this.#limits = limits;
    source.on('data', this.#onData);
    source.on('end', this.#onEnd);
    source.on('drain', this.#onDrain);
    source.on('error', () => this.destroy());
    source.on('close', this.#onClose);
  }

  get signedIn(): boolean {
    return this.#phase === 'open';
  }

  /** Nothing more is read or written, or soon will not be. */
  get closing(): boolean {
    return this.#phase === 'closed';
  }

  /** Cuts the peer after one and a half times this long without a packet [MQTT-3.1.2-24]; 0 is for ever. */
  setKeepAlive(seconds: number): void {
    if (seconds > 0 && !this.closing) this.#watch(seconds * 1_500, seconds * 1_500);
  }

  /** The CONNECT was accepted: longer packets may come, as `gate` admits them. */
  open(gate: PacketHandler): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'open';
    this.#gate = gate;
    this.resumeReading();
  }

  /** Asks the gate again for the packet that was held. */
  resumeReading(): void {
    if (this.#holdTimer !== null) {
      clearTimeout(this.#holdTimer);
      this.#holdTimer = null;
    }
    const held = this.#held;
    if (held === null || this.destroyed) return;
    this.#held = null;
    this.#take(held);
    this.#flow();
  }

  /** Writes at once, or answers false: then no byte of it has left or ever will. */
  send(frame: Buffer): boolean {
    if (this.destroyed || this.#phase === 'closed' || this.#source.destroyed) return false;
    const waiting = this.writableLength;
    if (waiting + this.#source.writableLength + frame.length > this.#limits.queuedBytes) {
      this.terminate('slow');
      return false;
    }
    // Past what the library wrote and holds back for now nothing goes, and while the peer takes less than it is sent, what it takes is
    // to be seen; else a frame needs no second stream.
    if (waiting > 0 || this.#stalled !== null || this.writableEnded) this.write(frame);
    else this.#send(frame, nothing);
    return true;
  }

  /** Ends the connection after what was written; nothing more is read. */
  close(reason: CloseReason): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    this.reason ??= reason;
    // The library corks until the next tick: what it wrote is to leave first.
    setImmediate(() => this.destroy());
  }

  /** Ends the connection now. */
  terminate(reason: CloseReason): void {
    this.#phase = 'closed';
    this.reason ??= reason;
    this.#source.destroy();
    this.destroy();
  }

  override _read(): void {
    this.#readerFull = false;
    this.#flow();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#send(chunk, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  override _final(done: () => void): void {
    done();
    this.destroy();
  }

  override _destroy(_error: Error | null, done: (error: Error | null) => void): void {
    this.#phase = 'closed';
    this.#held = null;
    if (this.#holdTimer !== null) clearTimeout(this.#holdTimer);
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    if (this.#silenceTimer !== null) clearTimeout(this.#silenceTimer);
    const source = this.#source;
    source.off('data', this.#onData);
    source.off('end', this.#onEnd);
    source.off('drain', this.#onDrain);
    if (!source.destroyed) {
      // Read on and throw away: an end with unread bytes becomes a reset, which can swallow the last answer.
      source.resume();
      source.end();
      const timer = setTimeout(() => source.destroy(), this.#limits.lingerMs);
      source.once('close', () => clearTimeout(timer));
    }
    done(null);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#heardAt = performance.now();
    if (this.#held !== null) this.#hold(Buffer.concat([this.#held, chunk]), Number.POSITIVE_INFINITY);
    else this.#take(chunk);
    this.#flow();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    if (this.#held === null) this.push(null);
  };

  /** What came before a proper end is still read, though nothing can be answered any more. */
  readonly #onClose = (): void => {
    if (!this.#ended) this.destroy();
  };

  readonly #onDrain = (): void => {
    const done = this.#stalled;
    if (done === null) return;
    this.#stalled = null;
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#stallTimer = null;
    done();
    this.resumeReading();
  };

  #flow(): void {
    if (this.destroyed) return;
    if (this.#held === null && this.#ended) this.push(null);
    else if (this.#held !== null || this.#readerFull) this.#source.pause();
    else this.#source.resume();
  }

  /** Lets bytes through up to the first packet that may not pass now. */
  #take(chunk: Buffer): void {
    // More may come before a connection that was finished is gone.
    if (this.closing) return;
    let at = 0;
    /** Where the bytes begin that the library is still to get. */
    let from = 0;
    while (at < chunk.length) {
      if (this.#remaining > 0) {
        const part = Math.min(this.#remaining, chunk.length - at);
        this.#remaining -= part;
        at += part;
        if (this.#type === PUBLISH) this.#published(chunk, at - part, at);
        else if (this.#remaining === 0) this.#packetEnds();
      } else if (this.#headerBytes === 0) {
        const first = chunk[at] as number;
        const wait = this.#admit(first >> 4);
        if (wait > 0) {
          this.#hold(chunk.subarray(at), wait);
          break;
        }
        if (this.#phase === 'open' && isPuback(chunk, at)) {
          this.#pass(chunk, from, at);
          at += PUBACK_BYTES;
          from = at;
          continue;
        }
        this.#begin(first);
        if (this.#type === PUBLISH) this.#pass(chunk, from, at);
        at += 1;
      } else {
        this.#lengthByte(chunk[at] as number);
        at += 1;
      }
      if (this.#phase === 'closed') return;
      if (this.#type === PUBLISH) from = at;
    }
    this.#pass(chunk, from, at);
  }

  #pass(chunk: Buffer, from: number, to: number): void {
    if (to > from) this.#readerFull = !this.push(to - from === chunk.length ? chunk : chunk.subarray(from, to));
  }

  #begin(first: number): void {
    this.#type = first >> 4;
    this.#flags = first & 0x0f;
    this.#headerBytes = 1;
    this.#length = 0;
  }

  #admit(type: number): number {
    if (this.#phase === 'signing-in') return Number.POSITIVE_INFINITY;
    if (this.#phase === 'connect') {
      if (type !== CONNECT) this.terminate('protocol');
      return 0;
    }
    if (!clientTypes.has(type)) {
      this.terminate('protocol');
      return 0;
    }
    // Every packet has an answer: none is read while the peer takes no answers.
    if (this.#stalled !== null) return Number.POSITIVE_INFINITY;
    return (this.#gate as PacketHandler).admit(type);
  }

  #lengthByte(byte: number): void {
    const shift = (this.#headerBytes - 1) * 7;
    this.#headerBytes += 1;
    this.#length |= (byte & 0x7f) << shift;
    const limit = this.#phase === 'connect' ? this.#limits.maxPacketBytesBeforeConnack : this.#limits.maxPacketBytes;
    if (this.#headerBytes + this.#length > limit) {
      this.terminate('oversized');
      return;
    }
    if ((byte & 0x80) !== 0) {
      if (shift >= MAX_LENGTH_SHIFT) this.terminate('protocol');
      return;
    }
    this.#headerBytes = 0;
    this.#remaining = this.#length;
    // The broker library answers one without topic filters with an empty SUBACK or an UNSUBACK.
    if (filterTypes.has(this.#type) && this.#length <= PACKET_ID_BYTES) this.terminate('protocol');
    if (this.#remaining > 0) return;
    if (this.#type === PUBLISH) this.#published(NOTHING, 0, 0);
    else this.#packetEnds();
  }

  #packetEnds(): void {
    if (this.#phase === 'connect') this.#phase = 'signing-in';
  }

  /** More of a PUBLISH, as a rule all of it. */
  #published(bytes: Buffer, from: number, to: number): void {
    if (to - from === this.#length) {
      this.#gate?.onPublish(this.#flags, bytes, from, to);
      return;
    }
    this.#parts.push(bytes.subarray(from, to));
    if (this.#remaining > 0) return;
    const body = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#gate?.onPublish(this.#flags, body, 0, body.length);
  }

  /** Looks after `wait` milliseconds whether there was silence for `longest`; one whose bytes are held is not silent. */
  #watch(longest: number, wait: number): void {
    this.#silenceTimer = setTimeout(() => {
      // What came while the process was busy is read before.
      setImmediate(() => {
        if (this.closing) return;
        const silent = this.#held === null ? performance.now() - this.#heardAt : 0;
        if (silent >= longest) this.terminate('silent');
        else this.#watch(longest, longest - silent);
      });
    }, wait);
  }

  #hold(rest: Buffer, wait: number): void {
    this.#held = rest;
    if (this.#phase === 'signing-in' && rest.length > this.#limits.maxBufferedBytesBeforeConnack) {
      this.terminate('oversized');
      return;
    }
    if (Number.isFinite(wait)) this.#holdTimer = setTimeout(() => this.resumeReading(), wait);
  }

  #send(bytes: Buffer, done: () => void): void {
    const source = this.#source;
    if (source.destroyed || source.writableEnded || source.write(bytes)) {
      done();
      return;
    }
    this.#stalled = done;
    this.#stallTimer ??= setTimeout(() => this.terminate('slow'), this.#limits.stallMs);
  }
}

const nothing = (): void => {};

/** One that has come whole; of another form, or in pieces, the library is to judge. */
const isPuback = (chunk: Buffer, at: number): boolean =>
  chunk[at] === PUBACK_HEADER[0] && chunk[at + 1] === PUBACK_HEADER[1] && at + PUBACK_BYTES <= chunk.length;
