import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Caller } from '../../operations/operation.ts';
import type { CloseCode } from '../shared/live/close-codes.ts';
import type { Subscription } from '../shared/live/subscription.ts';
import { type Chunk, chunksOf, encodeUpdateFrame, frameBytes, type UpdateFrame } from './frames.ts';
import type { Snapshot } from './snapshots.ts';
import type { WebSocketLimits } from './websocket-limits.ts';

const PONG = encodeUpdateFrame('pong', null, ['pong']);
/** How long a peer may take to answer a close frame. */
const CLOSE_MS = 2_000;

/**
 * One client. It is either *joined*, and gets the bytes that its whole audience gets, or *apart*: until it was let in
 * and had its snapshot, and whenever it reads too slowly. Then what it is to hear waits in a map by subject, so that a
 * newer update replaces an older one.
 */
export class Connection {
  readonly subscription: Subscription;
  /** Who it is, once that is known. */
  caller: Caller | null = null;
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #limits: WebSocketLimits;
  #waiting = new Map<string, UpdateFrame>();
  /** What came since the last flush for a client that is apart, but not behind: nothing of it is left out. */
  #fresh: UpdateFrame[] = [];
  #open = false;
  #blocked = false;
  /** What the snapshot told: an update that comes out late for a state that was read already is no news. */
  #told: Snapshot | null = null;
  #toldUntil = 0;
  #heard = 0;
  #sent = 0;
  #silentLooks = 0;
  #answered = false;

  constructor(parts: {
    ws: WebSocket;
    socket: Duplex;
    interest: Subscription;
    limits: WebSocketLimits;
    drained(): void;
  }) {
    this.#ws = parts.ws;
    this.#socket = parts.socket;
    this.subscription = parts.interest;
    this.#limits = parts.limits;
    this.#socket.on('drain', () => {
      this.#blocked = false;
      parts.drained();
    });
    this.#ws.on('pong', () => {
      this.#answered = true;
    });
    this.#ws.on('message', (data, binary) => {
      this.#heard++;
      if (!binary && String(data) === 'ping') this.#pong();
    });
  }

  get alive(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  /** Whether it can get the same bytes as its audience from now on. */
  get isCaughtUp(): boolean {
    return this.#open && this.pendingCount === 0 && this.#told === null && !this.#blocked;
  }

  get pendingCount(): number {
    return this.#waiting.size + this.#fresh.length;
  }

  get buffered(): number {
    return this.#socket.writableLength;
  }

  /** It may have what waits: the snapshot first, then what came meanwhile and is newer. */
  activate(snapshot: Snapshot | null, now: number): void {
    if (snapshot !== null) {
      const meanwhile = this.#waiting;
      this.#waiting = new Map();
      for (const [subject, told] of snapshot) {
        const live = meanwhile.get(subject);
        this.#waiting.set(subject, live === undefined || isOlder(live, told) ? told : live);
        meanwhile.delete(subject);
      }
      for (const [subject, told] of meanwhile) this.#waiting.set(subject, told);
      this.#told = snapshot;
      this.#toldUntil = now + this.#limits.snapshotWindowMs;
    }
    this.#open = true;
    this.flushPending();
  }

  /** While apart: for a client that is not let in yet or is behind, only the newest of each subject. */
  enqueue(told: UpdateFrame): void {
    if (!this.alive) return;
    const known = this.#told?.get(told.subject);
    if (known !== undefined && !isOlder(known, told)) return;
    if (this.#open && !this.#blocked) this.#fresh.push(told);
    else this.#put(told);
  }

  #put(told: UpdateFrame): void {
    this.#waiting.delete(told.subject);
    this.#waiting.set(told.subject, told);
    if (this.#waiting.size > this.#limits.maxPendingUpdates) this.close(1013, 'too slow: connect again');
  }

  /** While apart: writes what waits, as far as the client reads it. */
  flushPending(): void {
    if (!this.#open || this.#blocked || this.pendingCount === 0) return;
    const items = [...this.#waiting.values(), ...this.#fresh];
    this.#waiting.clear();
    this.#fresh = [];
    let written = 0;
    for (const chunk of chunksOf(items)) {
      written += chunk.items.length;
      if (!this.write(chunk)) break;
    }
    for (const told of items.slice(written)) this.#put(told);
  }

  /** While joined. False once the client is behind: what follows has to wait. */
  write({ bytes }: Pick<Chunk, 'bytes'>): boolean {
    if (!this.alive) return false;
    this.#socket.write(bytes);
    this.#blocked = this.#socket.writableLength > this.#limits.highWater;
    return !this.#blocked;
  }

  /** A look from time to time: ends who floods or is dead. True when its snapshot may be forgotten from now on. */
  checkHealth(now: number, pinging: boolean): boolean {
    const settled = this.#told !== null && now >= this.#toldUntil;
    if (settled) this.#told = null;
    if (this.#heard > this.#limits.maxMessagesPerCheck) this.close(1008, 'too many messages');
    this.#heard = 0;
    if (pinging) this.#ping();
    return settled;
  }

  #ping(): void {
    const flushed = bytesWritten(this.#socket) - this.#socket.writableLength;
    const lives = this.#answered || flushed > this.#sent;
    this.#silentLooks = lives ? 0 : this.#silentLooks + 1;
    this.#answered = false;
    if (this.#silentLooks >= 2) {
      this.#ws.terminate();
    } else if (this.alive && !this.#blocked) {
      this.#ws.ping();
    }
    this.#sent = bytesWritten(this.#socket) - this.#socket.writableLength;
  }

  /** Who is not let in yet, or reads slowly, gets one answer to all its pings. */
  #pong(): void {
    if (!this.alive) return;
    if (this.#blocked || !this.#open) this.enqueue(PONG);
    else this.write({ bytes: frameBytes(PONG) });
  }

  close(code: CloseCode, reason: string): void {
    if (!this.alive) return;
    this.#waiting.clear();
    this.#fresh = [];
    this.#ws.close(code, reason);
    setTimeout(() => this.#ws.terminate(), CLOSE_MS).unref();
  }
}

/** Whether `one` was overtaken by `other`, which is about the same subject. */
const isOlder = (one: UpdateFrame, other: UpdateFrame): boolean =>
  one.version === null || other.version === null || one.version < other.version;

const bytesWritten = (socket: Duplex): number =>
  'bytesWritten' in socket && typeof socket.bytesWritten === 'number' ? socket.bytesWritten : 0;
