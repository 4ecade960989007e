import { Duplex } from 'node:stream';
import type { MqttClient } from '../shared/mqtt-client.ts';
import { CREDENTIAL_RECEIVED, SIGNED_IN } from '../shared/unauthenticated-connections.ts';
import type { ClientConnection, PacketHandler } from './client-connection.ts';
import { KeepAlive } from './keep-alive.ts';
import type { MqttLimits } from './mqtt-limits.ts';
import type { CloseReason } from './mqtt-meter.ts';
import { areFiltersValid, checkConnect } from './packet-checks.ts';
import { decodePublish, encodePacket, UNACCEPTABLE_VERSION } from './packets.ts';

export const CONNECT = 1;
export const PUBLISH = 3;
const PUBACK = 4;
const SUBSCRIBE = 8;
const UNSUBSCRIBE = 10;
const PINGREQ = 12;
const DISCONNECT = 14;
const PACKET_ID_BYTES = 2;
/** Bytes after the fixed header, of packets of which all have the same number. */
const fixedLengths: ReadonlyMap<number, number> = new Map([
  [PUBACK, PACKET_ID_BYTES],
  [PINGREQ, 0],
  [DISCONNECT, 0],
]);
/** No QoS 2 packets, and no second CONNECT. */
const clientTypes: ReadonlySet<number> = new Set([PUBLISH, PUBACK, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT]);
/** Packets that are checked when they are complete, and forwarded to aedes then. */
const checkedTypes: ReadonlySet<number> = new Set([CONNECT, SUBSCRIBE, UNSUBSCRIBE]);
/** Packets that are not forwarded to aedes as they arrive. */
const withheldTypes: ReadonlySet<number> = new Set([PUBLISH, PUBACK, ...checkedTypes]);
const MAX_LENGTH_SHIFT = 21;
const EMPTY = Buffer.alloc(0);

/**
 * Byte stream between a peer's socket (TCP, TLS or WebSocket) and aedes, which enforces no limits. Packet sizes are
 * checked from the fixed header while bytes arrive, so an oversized packet ends the connection before it is buffered.
 * Nothing is read past the CONNECT until it is answered; afterwards packets pass as the packet handler admits them.
 * PUBLISH goes to the handler, everything else goes to aedes once its form is checked, except PUBACK: nothing waits for it, and aedes would keep an
 * entry for each client identifier that sent one. The send queue is bounded; a peer that stops reading is terminated.
 */
export class MqttConnection extends Duplex implements ClientConnection {
  readonly address: string;
  readonly encrypted: boolean;
  readonly certificate: Buffer | null;
  reason: CloseReason | null = null;

  readonly #source: Duplex;
  readonly #limits: MqttLimits;
  #phase: 'connect' | 'signing-in' | 'open' | 'closed' = 'connect';
  #handler: PacketHandler | null = null;

  // The current packet: type, flags, bytes still to come, and the remaining length as decoded so far. `#parts` holds the
  // pieces of a PUBLISH from earlier reads.
  #type = 0;
  #flags = 0;
  #withheld = false;
  #parts: Buffer[] = [];
  #remaining = 0;
  #headerBytes = 0;
  #length = 0;
  /** Bytes that were read but not admitted yet; the source is paused while there are any. */
  #buffered: Buffer | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #readableFull = false;
  #sourceEnded = false;

  /** Callback of the write that filled the socket's buffer; null unless the socket is back-pressured. */
  #stalledWrite: (() => void) | null = null;
  #stallTimer: NodeJS.Timeout | null = null;
  readonly #keepAlive = new KeepAlive(this);

  constructor(source: Duplex, { address, encrypted, certificate }: Omit<MqttClient, 'transport'>, limits: MqttLimits) {
    super({ allowHalfOpen: false });
    this.#source = source;
    this.address = address;
    this.encrypted = encrypted;
    this.certificate = certificate ?? null;
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

  get closing(): boolean {
    return this.#phase === 'closed';
  }

  get hasBuffered(): boolean {
    return this.#buffered !== null;
  }

  /** Terminates the peer when it is silent for longer than this keep-alive allows; 0 disables the check. */
  setKeepAlive(seconds: number): void {
    this.#keepAlive.start(seconds);
  }

  open(handler: PacketHandler): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'open';
    this.#handler = handler;
    this.#source.emit(SIGNED_IN);
    this.resumeReading();
  }

  resumeReading(): void {
    if (this.#retryTimer !== null) {
      clearTimeout(this.#retryTimer);
      this.#retryTimer = null;
    }
    const buffered = this.#buffered;
    if (buffered === null || this.destroyed) return;
    this.#buffered = null;
    this.#consume(buffered);
    this.#updateReading();
  }

  send(frame: Buffer): boolean {
    if (this.destroyed || this.#phase === 'closed' || this.#source.destroyed) return false;
    const queued = this.writableLength;
    if (queued + this.#source.writableLength + frame.length > this.#limits.queuedBytes) {
      this.terminate('slow');
      return false;
    }
    // Queue behind frames that aedes has corked, and while the socket is back-pressured, so that `writableLength` stays
    // accurate. Otherwise write to the socket directly.
    if (queued > 0 || this.#stalledWrite !== null || this.writableEnded) this.write(frame);
    else this.#send(frame, noop);
    return true;
  }

  close(reason: CloseReason): void {
    if (this.#phase === 'closed') return;
    this.#phase = 'closed';
    this.reason ??= reason;
    // Aedes corks its writes until the next tick: they have to be flushed first.
    setImmediate(() => this.destroy());
  }

  terminate(reason: CloseReason): void {
    this.#phase = 'closed';
    this.reason ??= reason;
    this.#source.destroy();
    this.destroy();
  }

  override _read(): void {
    this.#readableFull = false;
    this.#updateReading();
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
    this.#buffered = null;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#keepAlive.stop();
    const source = this.#source;
    source.off('data', this.#onData);
    source.off('end', this.#onEnd);
    source.off('drain', this.#onDrain);
    if (!source.destroyed) {
      // Keep reading and discard: closing a socket with unread bytes sends a reset, which can drop the last packet sent.
      source.resume();
      source.end();
      const timer = setTimeout(() => source.destroy(), this.#limits.lingerMs);
      source.once('close', () => clearTimeout(timer));
    }
    done(null);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#keepAlive.received();
    if (this.#buffered !== null) this.#bufferUntil(Buffer.concat([this.#buffered, chunk]), Number.POSITIVE_INFINITY);
    else this.#consume(chunk);
    this.#updateReading();
  };

  readonly #onEnd = (): void => {
    this.#sourceEnded = true;
    if (this.#buffered === null) this.push(null);
  };

  /** After an orderly end, buffered packets are still processed, although they can no longer be answered. */
  readonly #onClose = (): void => {
    if (!this.#sourceEnded) this.destroy();
  };

  readonly #onDrain = (): void => {
    const done = this.#stalledWrite;
    if (done === null) return;
    this.#stalledWrite = null;
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#stallTimer = null;
    done();
    this.resumeReading();
  };

  #updateReading(): void {
    if (this.destroyed) return;
    if (this.#buffered === null && this.#sourceEnded) this.push(null);
    else if (this.#buffered !== null || this.#readableFull) this.#source.pause();
    else this.#source.resume();
  }

  /** Processes bytes up to the first packet that is not admitted now. */
  #consume(chunk: Buffer): void {
    // Bytes may still arrive between `close` and the actual end.
    if (this.closing) return;
    let at = 0;
    /** Start of the bytes that are still to be forwarded to aedes. */
    let from = 0;
    while (at < chunk.length) {
      if (this.#remaining > 0) {
        const part = Math.min(this.#remaining, chunk.length - at);
        this.#remaining -= part;
        at += part;
        if (this.#type === PUBLISH) this.#collectPublish(chunk, at - part, at);
        else if (checkedTypes.has(this.#type)) this.#collectChecked(chunk.subarray(at - part, at));
      } else if (this.#headerBytes === 0) {
        const first = chunk[at] as number;
        const wait = this.#admit(first >> 4);
        if (wait > 0) {
          this.#bufferUntil(chunk.subarray(at), wait);
          break;
        }
        this.#startPacket(first);
        if (this.#withheld) this.#forward(chunk, from, at);
        at += 1;
      } else {
        this.#lengthByte(chunk[at] as number);
        at += 1;
      }
      if (this.#phase === 'closed') return;
      if (this.#withheld) from = at;
    }
    this.#forward(chunk, from, at);
  }

  #forward(chunk: Buffer, from: number, to: number): void {
    if (to > from) this.#readableFull = !this.push(to - from === chunk.length ? chunk : chunk.subarray(from, to));
  }

  #startPacket(first: number): void {
    this.#type = first >> 4;
    this.#withheld = withheldTypes.has(this.#type);
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
    // Every packet is answered: read none while the peer does not read the answers.
    if (this.#stalledWrite !== null) return Number.POSITIVE_INFINITY;
    return (this.#handler as PacketHandler).admit(type);
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
    const fixedLength = fixedLengths.get(this.#type);
    if (fixedLength !== undefined && (this.#length !== fixedLength || this.#flags !== 0)) this.terminate('protocol');
    if (this.#remaining > 0) return;
    if (this.#type === PUBLISH) this.#collectPublish(EMPTY, 0, 0);
    else if (checkedTypes.has(this.#type)) this.#collectChecked(EMPTY);
  }

  /** Collects a packet until it is complete, checks its form, and forwards it to aedes. */
  #collectChecked(part: Buffer): void {
    this.#parts.push(part);
    if (this.#remaining > 0) return;
    const packet = Buffer.concat(this.#parts);
    this.#parts = [];
    const check = this.#type === CONNECT ? checkConnect(packet) : this.#checkFilters(packet);
    if (check === 'version') {
      this.send(UNACCEPTABLE_VERSION);
      this.close('refused');
      return;
    }
    if (check === 'malformed') {
      this.terminate('protocol');
      return;
    }
    const frame = encodePacket((this.#type << 4) | this.#flags, packet);
    this.#forward(frame, 0, frame.length);
    if (this.#phase !== 'connect') return;
    this.#phase = 'signing-in';
    this.#source.emit(CREDENTIAL_RECEIVED);
  }

  #checkFilters(packet: Buffer): 'valid' | 'malformed' {
    return areFiltersValid(packet, { withQos: this.#type === SUBSCRIBE }) ? 'valid' : 'malformed';
  }

  /** Decodes a PUBLISH, usually from one chunk: otherwise collects its pieces first. */
  #collectPublish(chunk: Buffer, from: number, to: number): void {
    if (to - from === this.#length) {
      this.#handler?.onPublish(decodePublish(this.#flags, chunk, from, to));
      return;
    }
    this.#parts.push(chunk.subarray(from, to));
    if (this.#remaining > 0) return;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#handler?.onPublish(decodePublish(this.#flags, whole, 0, whole.length));
  }

  /** Buffers `rest` and retries after `wait` ms, or on `resumeReading` if that is infinite. */
  #bufferUntil(rest: Buffer, wait: number): void {
    this.#buffered = rest;
    if (this.#phase === 'signing-in' && rest.length > this.#limits.maxBufferedBytesBeforeConnack) {
      this.terminate('oversized');
      return;
    }
    if (Number.isFinite(wait)) this.#retryTimer = setTimeout(() => this.resumeReading(), wait);
  }

  #send(bytes: Buffer, done: () => void): void {
    const source = this.#source;
    if (source.destroyed || source.writableEnded || source.write(bytes)) {
      done();
      return;
    }
    this.#stalledWrite = done;
    this.#stallTimer ??= setTimeout(() => this.terminate('slow'), this.#limits.stallMs);
  }
}

const noop = (): void => {};
