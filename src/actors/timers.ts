import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import { type EpochMs, SYSTEM } from '../domain/values.ts';
import type { ActorStore, TimerRow } from '../store/contract.ts';
import { collectRejections } from './collect-rejections.ts';
import { NoSuchActor, NotOwner, Quarantined } from './contract.ts';
import { addressOf } from './live-actor.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { RuntimeLimits } from './runtime-limits.ts';
import type { Supervisor } from './supervisor.ts';

const BATCH = 1_000;
/** Maximum sleep: bounds the delay after a clock step. */
const MAX_SLEEP_MS = 1_000;
/** Maximum time between two reads of the store, for timers that another process wrote. */
const STORE_POLL_MS = 60_000;

/**
 * Durable timers: sends an event for each due timer row. A row is deleted with the transition that it causes, so it
 * fires again after a crash.
 */
export class Timers {
  #nextAt: EpochMs = 0;
  #lastReadAt: EpochMs = 0;
  #handle: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  /** The firing that `tick` requested while another one was running. */
  #nextFiring: Promise<void> | null = null;
  #stopped = true;
  readonly #firing = new Set<string>();
  /** Due times of timers that were set since the running firing began to read; the rows it read may be older. */
  readonly #rescheduledAt = new Map<string, EpochMs>();

  readonly #supervisor: Supervisor;
  readonly #store: ActorStore;
  readonly #clock: Clock;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  readonly #shards: ShardOwnership;

  constructor(parts: {
    supervisor: Supervisor;
    store: ActorStore;
    clock: Clock;
    limits: RuntimeLimits;
    log: Log;
    shards: ShardOwnership;
  }) {
    this.#supervisor = parts.supervisor;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#shards = parts.shards;
  }

  start(): void {
    this.#stopped = false;
    this.#arm();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#handle) clearTimeout(this.#handle);
    this.#handle = null;
  }

  /** Reads the store soon: it may have timers without a call of `timerSet`, such as those of shards that were added. */
  readSoon(): void {
    this.#nextAt = 0;
    this.#arm();
  }

  /** Called when a committed transition has set a timer. */
  timerSet(timer: TimerRow): void {
    const { dueAt } = timer;
    if (this.#running !== null) this.#rescheduledAt.set(keyOf(timer), dueAt);
    if (dueAt >= this.#nextAt) return;
    this.#nextAt = dueAt;
    if (dueAt - this.#clock.now() < MAX_SLEEP_MS) this.#arm();
  }

  /**
   * Fires all due timers; resolves when each one is answered. If a firing is running, another one follows: the running
   * one may have read the store before now.
   */
  tick(): Promise<void> {
    if (this.#running === null) return this.#fireAll();
    this.#nextFiring ??= this.#running.then(() => {
      this.#nextFiring = null;
      return this.#fireAll();
    });
    return this.#nextFiring;
  }

  /** Joins the running firing, if any. */
  #fireAll(): Promise<void> {
    this.#running ??= this.#fire().finally(() => {
      this.#running = null;
      this.#rescheduledAt.clear();
    });
    return this.#running;
  }

  /** Number of due timers that are not answered yet. */
  get due(): number {
    return this.#firing.size;
  }

  sizes(): CollectionSizes {
    return { timers_firing: this.#firing.size, timers_set_again: this.#rescheduledAt.size };
  }

  #arm(): void {
    if (this.#stopped) return;
    if (this.#handle) clearTimeout(this.#handle);
    const sleepMs = Math.min(MAX_SLEEP_MS, Math.max(0, this.#nextAt - this.#clock.now()));
    this.#handle = setTimeout(() => {
      const now = this.#clock.now();
      const shouldRead = now >= this.#nextAt || Math.abs(now - this.#lastReadAt) >= STORE_POLL_MS;
      if (!shouldRead) this.#arm();
      else void this.#fireAll().finally(() => this.#arm());
    }, sleepMs);
    this.#handle.unref();
  }

  async #fire(): Promise<void> {
    const tried = new Set<string>();
    try {
      for (;;) {
        const now = this.#clock.now();
        this.#lastReadAt = now;
        const due = await this.#store.dueTimers(now, BATCH, this.#shards.list);
        const fresh = due.filter((timer) => !this.#firing.has(keyOf(timer)) && !tried.has(keyOf(timer)));
        for (const timer of fresh) tried.add(keyOf(timer));
        await this.#sendAll(fresh, now);
        // A row that stays due is in the next batch again; it is tried only once per firing.
        if (due.length < BATCH || fresh.length === 0) break;
      }
      // A timer set during this query may be missing from its result; `timerSet` handles it.
      this.#nextAt = Number.POSITIVE_INFINITY;
      const nextAt = await this.#store.nextTimerAt(this.#shards.list);
      if (nextAt !== null) this.#nextAt = Math.min(this.#nextAt, nextAt);
      // A row that stays due, for example because its actor has a full mailbox, must not cause a busy loop.
      if (this.#nextAt <= this.#lastReadAt) this.#nextAt = this.#clock.now() + MAX_SLEEP_MS;
    } catch (error) {
      this.#log.warn({ err: error }, 'timer read failed; retrying');
      this.#nextAt = this.#clock.now() + MAX_SLEEP_MS;
    }
  }

  async #sendAll(timers: readonly TimerRow[], now: EpochMs): Promise<void> {
    const rejected = await collectRejections(timers, (timer) => this.#send(timer, now));
    const failed = rejected.filter(({ reason }) => !(reason instanceof NotOwner));
    const [first] = failed;
    if (first === undefined) return;
    const { ref, id } = first.item;
    this.#log.warn(
      { err: first.reason, actor: addressOf(ref), timer: id, timers: failed.length },
      'timer event failed; retrying',
    );
  }

  async #send(timer: TimerRow, now: EpochMs): Promise<void> {
    const key = keyOf(timer);
    this.#firing.add(key);
    try {
      const superseded = () => (this.#rescheduledAt.get(key) ?? 0) > timer.dueAt;
      const event = { type: timer.event, at: now, by: SYSTEM };
      await this.#supervisor.sendWith(timer.ref, event, { firedTimer: timer.id, superseded });
    } catch (error) {
      if (error instanceof NoSuchActor)
        return await this.#store.dropTimers([{ ...timer, version: Number.MAX_SAFE_INTEGER }], now);
      // Otherwise the timers of quarantined actors would fill every batch of due timers.
      if (error instanceof Quarantined)
        await this.#store.postponeTimer(timer, now, now + this.#limits.quarantineRetryMs);
      throw error;
    } finally {
      this.#firing.delete(key);
    }
  }
}

const keyOf = (timer: TimerRow): string => `${addressOf(timer.ref)}:${timer.id}`;
