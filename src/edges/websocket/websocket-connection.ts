import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Caller } from '../../operations/operation.ts';
import type { CloseCode } from '../shared/live/close-codes.ts';
import type { LiveReach } from '../shared/live/live-reach.ts';
import type { Subscription } from '../shared/live/subscription.ts';
import { type Chunk, chunksOf, encodeUpdateFrame, frameBytes, type UpdateFrame } from './frames.ts';
import type { UpdateSnapshot } from './snapshots.ts';
import type { WebSocketLimits } from './websocket-limits.ts';

const PONG = encodeUpdateFrame('pong', null, ['pong']);
/** How long a peer may take to answer a close frame. */
const CLOSE_MS = 2_000;

/**
 * WebSocket connection of one client. It is either *in sync*, and gets the same bytes as its broadcast group, or
 * *conflating*: until it is activated and has its snapshot, and whenever it reads too slowly. While it conflates, its
 * updates wait in a map by subject, so that a newer update replaces an older one.
 */
export class WebSocketConnection {
  readonly subscription: Subscription;
  /** Null until the client is authenticated. */
  caller: Caller | null = null;
  /** Of a restricted key; set before the connection is added to its broadcast group. */
  reach: LiveReach | null = null;
  readonly #ws: WebSocket;
  readonly #socket: Duplex;
  readonly #limits: WebSocketLimits;
  #latestBySubject = new Map<string, UpdateFrame>();
  /** Updates since the last flush while conflating but not back-pressured: all of them are sent. */
  #queue: UpdateFrame[] = [];
  #activated = false;
  #blocked = false;
  /** The snapshot sent, kept for a while: a late update for a state that the snapshot already contained is dropped. */
  #snapshot: UpdateSnapshot | null = null;
  #snapshotUntil = 0;
  #messageCount = 0;
  #sentBytes = 0;
  #missedPings = 0;
  #pongReceived = false;

  constructor(parts: {
    ws: WebSocket;
    socket: Duplex;
    subscription: Subscription;
    limits: WebSocketLimits;
    onDrain(): void;
  }) {
    this.#ws = parts.ws;
    this.#socket = parts.socket;
    this.subscription = parts.subscription;
    this.#limits = parts.limits;
    this.#socket.on('drain', () => {
      this.#blocked = false;
      parts.onDrain();
    });
    this.#ws.on('pong', () => {
      this.#pongReceived = true;
    });
    this.#ws.on('message', (data, binary) => {
      this.#messageCount++;
      if (!binary && String(data) === 'ping') this.#pong();
    });
  }

  get alive(): boolean {
    return this.#ws.readyState === this.#ws.OPEN;
  }

  /** Whether it can get the same bytes as its broadcast group from now on. */
  get isCaughtUp(): boolean {
    return this.#activated && this.pendingCount === 0 && this.#snapshot === null && !this.#blocked;
  }

  get pendingCount(): number {
    return this.#latestBySubject.size + this.#queue.length;
  }

  get buffered(): number {
    return this.#socket.writableLength;
  }

  /** Starts sending: the snapshot first, then the updates received since that are newer. */
  activate(snapshot: UpdateSnapshot | null, now: number): void {
    if (snapshot !== null) {
      const latest = this.#latestBySubject;
      this.#latestBySubject = new Map();
      for (const [subject, update] of snapshot) {
        const pending = latest.get(subject);
        this.#latestBySubject.set(subject, pending === undefined || isOlder(pending, update) ? update : pending);
        latest.delete(subject);
      }
      for (const [subject, update] of latest) this.#latestBySubject.set(subject, update);
      this.#snapshot = snapshot;
      this.#snapshotUntil = now + this.#limits.snapshotWindowMs;
    }
    this.#activated = true;
    this.flushPending();
  }

  /** While conflating: queues an update; before activation or under back-pressure only the newest of each subject. */
  enqueue(update: UpdateFrame): void {
    if (!this.alive) return;
    const known = this.#snapshot?.get(update.subject);
    if (known !== undefined && !isOlder(known, update)) return;
    if (this.#activated && !this.#blocked) this.#queue.push(update);
    else this.#keepLatest(update);
  }

  #keepLatest(update: UpdateFrame): void {
    this.#latestBySubject.delete(update.subject);
    this.#latestBySubject.set(update.subject, update);
    if (this.#latestBySubject.size > this.#limits.maxPendingUpdates) this.close(1013, 'too slow: connect again');
  }

  /** While conflating: writes pending updates until the socket is back-pressured. */
  flushPending(): void {
    if (!this.#activated || this.#blocked || this.pendingCount === 0) return;
    const items = [...this.#latestBySubject.values(), ...this.#queue];
    this.#latestBySubject.clear();
    this.#queue = [];
    let written = 0;
    for (const chunk of chunksOf(items)) {
      written += chunk.items.length;
      if (!this.write(chunk)) break;
    }
    for (const update of items.slice(written)) this.#keepLatest(update);
  }

  /** Writes to the socket. False once it is back-pressured: further updates have to wait. */
  write({ bytes }: Pick<Chunk, 'bytes'>): boolean {
    if (!this.alive) return false;
    this.#socket.write(bytes);
    this.#blocked = this.#socket.writableLength > this.#limits.highWater;
    return !this.#blocked;
  }

  /**
   * Periodic check: closes a client that floods or is dead. True if the snapshot was released, which may end
   * conflating.
   */
  checkHealth(now: number, pinging: boolean): boolean {
    const expired = this.#snapshot !== null && now >= this.#snapshotUntil;
    if (expired) this.#snapshot = null;
    if (this.#messageCount > this.#limits.maxMessagesPerCheck) this.close(1008, 'too many messages');
    this.#messageCount = 0;
    if (pinging) this.#ping();
    return expired;
  }

  #ping(): void {
    const flushed = bytesWritten(this.#socket) - this.#socket.writableLength;
    const isAlive = this.#pongReceived || flushed > this.#sentBytes;
    this.#missedPings = isAlive ? 0 : this.#missedPings + 1;
    this.#pongReceived = false;
    if (this.#missedPings >= 2) {
      this.#ws.terminate();
    } else if (this.alive && !this.#blocked) {
      this.#ws.ping();
    }
    this.#sentBytes = bytesWritten(this.#socket) - this.#socket.writableLength;
  }

  /** Before activation and under back-pressure, all pings share one pong. */
  #pong(): void {
    if (!this.alive) return;
    if (this.#blocked || !this.#activated) this.enqueue(PONG);
    else this.write({ bytes: frameBytes(PONG) });
  }

  close(code: CloseCode, reason: string): void {
    if (!this.alive) return;
    this.#latestBySubject.clear();
    this.#queue = [];
    this.#ws.close(code, reason);
    setTimeout(() => this.#ws.terminate(), CLOSE_MS).unref();
  }
}

/** Whether `one` is older than `other`, which has the same subject. */
const isOlder = (one: UpdateFrame, other: UpdateFrame): boolean =>
  one.version === null || other.version === null || one.version < other.version;

const bytesWritten = (socket: Duplex): number =>
  'bytesWritten' in socket && typeof socket.bytesWritten === 'number' ? socket.bytesWritten : 0;
