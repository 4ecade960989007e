import type { Lease } from '../../../src/domain/lease.ts';
import type { Connection, Gate } from '../../../src/edges/mqtt/connection.ts';
import type { CloseReason } from '../../../src/edges/mqtt/meter.ts';
import type { Link } from './link.ts';

const PUBLISH = 3;
const FIXED_HEADER_MAX = 5;

/** What the service sends to a client. */
export type ToClient =
  | { type: 'connack'; code: number }
  | { type: 'suback'; granted: boolean }
  /** Bytes of PUBLISH and PUBACK packets, as they are written to a socket. */
  | { type: 'frame'; bytes: Buffer };

/** The client's end of a connection. */
export interface ClientEnd {
  received(packet: ToClient): void;
  closed(): void;
}

/** The service's end of a simulated connection, in place of `Wire`: packets come whole, and the gate decides when. */
export class SimulatedConnection implements Connection {
  readonly address: string;
  reason: CloseReason | null = null;
  readonly #link: Link;
  readonly #client: ClientEnd;
  #gate: Gate | null = null;
  #held: Buffer[] = [];
  #reading = false;
  #asked: NodeJS.Timeout | null = null;
  #closing = false;
  #closed = false;
  #listeners: (() => void)[] = [];

  readonly #lease: Lease;
  readonly #sending: (frame: Buffer) => void;
  readonly #reads: () => void;

  /** `sending` is called with each frame that leaves the service, `reads` with each message that is let through. */
  constructor(
    link: Link,
    client: ClientEnd,
    around: { address: string; lease: Lease; sending(frame: Buffer): void; reads(): void },
  ) {
    this.#reads = around.reads;
    this.#lease = around.lease;
    this.#link = link;
    this.#client = client;
    this.address = around.address;
    this.#sending = around.sending;
  }

  get closing(): boolean {
    return this.#closing;
  }

  once(_event: 'close', listener: () => void): void {
    this.#listeners.push(listener);
  }

  open(gate: Gate): void {
    if (this.#closing) return;
    this.#gate = gate;
    this.proceed();
  }

  /** A PUBLISH has arrived. */
  publish(packet: Buffer): void {
    if (this.#closing) return;
    this.#held.push(packet);
    this.proceed();
  }

  proceed(): void {
    if (this.#reading || this.#gate === null) return;
    if (this.#asked !== null) clearTimeout(this.#asked);
    this.#asked = null;
    this.#reading = true;
    try {
      while (!this.#closing && this.#held.length > 0) {
        const wait = this.#gate.admit(PUBLISH);
        if (wait > 0) {
          if (Number.isFinite(wait)) this.#asked = setTimeout(() => this.proceed(), wait);
          break;
        }
        const packet = this.#held.shift() as Buffer;
        this.#reads();
        this.#gate.publish((packet[0] as number) & 0x0f, packet, bodyOf(packet), packet.length);
      }
    } finally {
      this.#reading = false;
    }
  }

  /** A socket hands nothing to the operating system once the lease is over. */
  reply(packet: ToClient): void {
    if (!this.#lease.valid()) {
      this.lost();
      return;
    }
    if (packet.type === 'frame') this.#sending(packet.bytes);
    this.#link.send('client', () => this.#client.received(packet));
  }

  send(frame: Buffer): boolean {
    if (this.#closing) return false;
    this.reply({ type: 'frame', bytes: frame });
    return true;
  }

  finish(reason: CloseReason): void {
    if (this.#closing) return;
    this.#closing = true;
    this.reason ??= reason;
    setImmediate(() => this.#close());
  }

  cut(reason: CloseReason): void {
    this.#closing = true;
    this.reason ??= reason;
    this.#close();
  }

  /** The peer ended the connection, or it broke. */
  lost(): void {
    this.#closing = true;
    this.#close();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#asked !== null) clearTimeout(this.#asked);
    this.#held = [];
    this.#link.end('client', () => this.#client.closed());
    for (const listener of this.#listeners.splice(0)) listener();
  }
}

/** Where the body of a packet begins: behind its type and its remaining length. */
function bodyOf(packet: Buffer): number {
  for (let at = 1; at < FIXED_HEADER_MAX; at++) if (((packet[at] as number) & 0x80) === 0) return at + 1;
  throw new Error('a packet without a length');
}
