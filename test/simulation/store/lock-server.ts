import type { ClockSample } from '../../../src/domain/database-time.ts';
import { LEASE_MS, type Lease, RenewedLease } from '../../../src/domain/lease.ts';
import type { ActiveLock } from '../../../src/store/contract/active-lock.ts';
import type { MemoryDatabase } from '../../support/memory-store/database.ts';
import type { Random } from '../world/random.ts';
import type { Owner } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';

/** When the server reassigns the lock of an unresponsive session; longer than the lease. */
const SERVER_TIMEOUT_MS = 15_000;
const RENEW_MS = 1_000;
const ASK_AGAIN_MS = 200;

/**
 * PostgreSQL's advisory lock: one session holds it; its new holder raises the epoch and terminates the other sessions.
 */
export class LockServer {
  readonly #world: World;
  readonly #database: MemoryDatabase;
  #holder: { lock: SimulatedLock; lastPingAt: number } | null = null;
  #downUntil = 0;

  constructor(world: World, database: MemoryDatabase) {
    this.#world = world;
    this.#database = database;
  }

  /** Requests wait until then: the server recovers from a crash. */
  down(until: number): void {
    this.#downUntil = Math.max(this.#downUntil, until);
  }

  get isUp(): boolean {
    return this.#world.scheduler.now >= this.#downUntil;
  }

  /** Grants the lock to a session if it is free. */
  take(lock: SimulatedLock): boolean {
    this.#expire();
    if (this.#holder !== null || !this.isUp) return false;
    this.#holder = { lock, lastPingAt: this.#world.scheduler.now };
    return true;
  }

  /**
   * Raises the epoch for the holder of the lock; null for other sessions. `takeover` terminates the sessions of all
   * other processes.
   */
  claim(lock: SimulatedLock, takeover: () => void): number | null {
    if (!this.isUp || !this.renew(lock)) return null;
    this.#database.epoch += 1;
    takeover();
    this.#world.count('takeovers');
    this.#world.note('database', `epoch ${this.#database.epoch} belongs to ${lock.owner.name}`);
    return this.#database.epoch;
  }

  /** False if the session no longer holds the lock. */
  renew(lock: SimulatedLock): boolean {
    this.#expire();
    if (this.#holder?.lock !== lock) return false;
    this.#holder.lastPingAt = this.#world.scheduler.now;
    return true;
  }

  /** The session ended, and the server noticed. */
  free(lock: SimulatedLock): void {
    if (this.#holder?.lock === lock) this.#holder = null;
  }

  #expire(): void {
    const { now } = this.#world.scheduler;
    if (this.#holder !== null && now - this.#holder.lastPingAt >= SERVER_TIMEOUT_MS) this.#holder = null;
  }
}

/** A process's connection to the lock server: round trips take time, and it can be lost with or without an event. */
export class SimulatedLock implements ActiveLock {
  readonly owner: Owner;
  readonly #world: World;
  readonly #random: Random;
  readonly #server: LockServer;
  readonly #takeover: () => void;
  readonly #lease: RenewedLease;
  readonly #listeners: (() => void)[] = [];
  readonly #observers: ((sample: ClockSample) => void)[] = [];
  /** Virtual time at which the clock reading sent with the lock was evaluated. */
  judgedAt = 0;
  readonly node = '0195d9a2-7f00-7000-8000-000000000009';
  #holding = false;
  #line: 'up' | 'silent' | 'down' = 'up';

  constructor(parts: { world: World; random: Random; server: LockServer; owner: Owner; takeover(): void }) {
    this.owner = parts.owner;
    this.#world = parts.world;
    this.#random = parts.random;
    this.#server = parts.server;
    this.#takeover = parts.takeover;
    const now = () => performance.now();
    this.#lease = new RenewedLease(LEASE_MS, now, () => this.#lost());
  }

  get lease(): Lease {
    return this.#lease;
  }

  async acquire(signal: AbortSignal, accepts: (sample: ClockSample) => boolean = () => true): Promise<void> {
    while (!(await this.#try(signal, accepts))) await this.#world.scheduler.sleep(ASK_AGAIN_MS);
  }

  /** Acquires the lock, has its clock reading evaluated, raises the epoch and renews: false if one of these fails. */
  async #try(signal: AbortSignal, accepts: (sample: ClockSample) => boolean): Promise<boolean> {
    signal.throwIfAborted();
    const { answer: taken, sample: reading } = await this.#query(() => this.#server.take(this));
    if (!taken) return false;
    this.judgedAt = this.#world.scheduler.now;
    if (!accepts(reading)) {
      await this.#query(() => this.#server.free(this));
      return false;
    }
    const { answer: epoch } = await this.#query(() => this.#server.claim(this, this.#takeover));
    if (epoch === null) return false;
    const { answer: held, sample } = await this.#query(() => this.#server.renew(this));
    if (!held) return false;
    this.#holding = true;
    this.#lease.begin(epoch, sample.sentAt);
    for (const observe of this.#observers) observe(sample);
    this.#renewLater();
    return true;
  }

  onLost(listener: () => void): void {
    this.#listeners.push(listener);
  }

  onRenewed(listener: (sample: ClockSample) => void): void {
    this.#observers.push(listener);
  }

  /** A reading of the database clock; null while the server recovers from a crash. */
  async readClock(): Promise<ClockSample | null> {
    const { answer: isUp, sample } = await this.#query(() => this.#server.isUp);
    return isUp ? sample : null;
  }

  async release(): Promise<void> {
    this.#lease.end();
    if (this.#line === 'up') await this.#query(() => this.#server.free(this));
  }

  /** The connection is lost: with an event at both ends, the process first, or at neither. */
  cut(how: 'seen' | 'silent'): void {
    // While it waits for the lock, it retries on another connection.
    if (this.#line !== 'up' || !this.#holding) return;
    this.#line = how === 'silent' ? 'silent' : 'down';
    if (how === 'seen') this.#world.scheduler.at(this.#transit(), () => this.#lost(), this.owner);
  }

  /** The process has ended, and its host closes the connection; a silently lost connection does not deliver that. */
  end(): void {
    if (this.#line === 'silent') return;
    this.#world.scheduler.at(this.#transit(), () => this.#server.free(this), null);
  }

  #lost(): void {
    this.#lease.end();
    this.end();
    for (const listener of this.#listeners.splice(0)) listener();
  }

  #renewLater(): void {
    this.#world.scheduler.at(RENEW_MS, () => void this.#renew(), this.owner);
  }

  async #renew(): Promise<void> {
    if (!this.#lease.valid()) return;
    this.#renewLater();
    const { answer: held, sample } = await this.#query(() => this.#server.renew(this));
    if (!held) {
      this.#lost();
      return;
    }
    this.#lease.renewed(sample.sentAt);
    for (const observe of this.#observers) observe(sample);
  }

  /** With a reading of the database clock. Never answered on a lost connection. */
  #query<T>(question: () => T): Promise<{ answer: T; sample: ClockSample }> {
    return new Promise((resolve) => {
      if (this.#line !== 'up') return;
      const sentAt = performance.now();
      const arrive = () => {
        if (this.owner.state === 'dead' || this.#line !== 'up') return;
        const answer = question();
        const databaseNow = this.#world.scheduler.now;
        const answered = () => {
          if (this.#line === 'up') resolve({ answer, sample: { sentAt, receivedAt: performance.now(), databaseNow } });
        };
        this.#world.scheduler.at(this.#transit(), answered, this.owner);
      };
      this.#world.scheduler.at(this.#transit(), arrive, null);
    });
  }

  #transit(): number {
    return this.#random.between(0.1, 20);
  }
}
