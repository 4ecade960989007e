import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import { NIL_UUID } from '../domain/uuid.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { AuditRow } from '../store/contract/audit.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../store/contract.ts';

/** An action with its actor and subject, as it is audited. */
export type AuditedAction = Omit<AuditRow, 'id' | 'at' | 'outcome' | 'count'>;
/** A credential that names a user or a key, and did not authenticate them. */
export type FailedSignIn = Omit<AuditedAction, 'action' | 'subject'>;

/** Per user. */
const MAX_REFUSALS_PER_MINUTE = 60;
/** Rows that may be pending, while the store is unavailable, before those that no caller waits for are dropped. */
const MAX_PENDING = 1_000;
const MAX_BATCH = 500;
/** Users, keys and reads whose repetitions are counted at the same time; of others nothing is counted. */
const MAX_REPEATED = 10_000;
/** The column is a signed integer of 32 bits. */
const MAX_COUNT = 2 ** 31 - 1;
const MINUTE_MS = 60_000;
const RETRY: BackoffLimits = { firstMs: 50, maxMs: 1_000 };
const CLOSE_MS = 2_000;

export interface AuditWriterParts {
  store: { audit: Pick<Store['audit'], 'append'> };
  clock: Clock;
  newId(): Uuid;
  log: Log;
  /** Called for each refusal and failed sign-in that is not written. */
  dropped?(code: RefusalCode): void;
}

interface PendingRow {
  row: AuditRow;
  /** Null for a refusal: its caller does not wait for the row. */
  waiter: { resolve(): void; reject(why: unknown): void } | null;
}

/** An action whose repetitions within a minute are counted. */
interface Repeated {
  /** Monotonic time of the row of the first one. */
  since: Milliseconds;
  /** The latest one, with the number of those after the first. */
  last: Pick<AuditRow, 'outcome'> & AuditedAction;
  count: number;
  /** Settles when the row of the first one is durable. */
  first: Promise<void>;
}

/** Writer of the audit's own rows: actions that no actor's journal records. */
export class AuditWriter implements SizeReporter {
  readonly #parts: AuditWriterParts;
  readonly #refusals = new Map<Uuid, number>();
  readonly #repeated = new Map<string, Repeated>();
  #counting: NodeJS.Timeout | null = null;
  #minute = 0;
  #pending: PendingRow[] = [];
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #closed = false;
  /** Refusals and failed sign-ins that were dropped while too many rows were pending, since the last row about them. */
  #dropped = 0;

  constructor(parts: AuditWriterParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the row is durable. Retried for as long as the store is unavailable; the caller may stop waiting
   * earlier. Nothing is written if there is a row with this `id`.
   */
  recordDone(action: AuditedAction, id?: Uuid): Promise<void> {
    return this.#record({ ...action, outcome: 'done', count: 1 }, id);
  }

  /** Like `recordDone` for an action on so many things, such as rows of a file. */
  recordCounted(action: AuditedAction, count: number): Promise<void> {
    return this.#record({ ...action, outcome: 'done', count: Math.min(count, MAX_COUNT) });
  }

  /**
   * Like `recordDone` for an action that its user repeats often, such as a read: repetitions within a minute are one more
   * row, at its end, with their number.
   */
  recordRepeated(action: AuditedAction): Promise<void> {
    return this.#recordOnce(action, 'done') ?? this.recordDone(action);
  }

  /**
   * Fire and forget. At most two rows for a user or a key in a minute, for each edge of this process: the first failure, and
   * the number of the others. While 1,000 rows wait for the store, others are dropped; their number is in one row
   * afterwards.
   */
  recordFailedSignIn(failure: FailedSignIn): void {
    const subject = failure.key === null ? `user:${failure.by}` : `key:${failure.key}`;
    this.recordRepeatedRefusal({ ...failure, action: 'signIn', subject }, 'UNAUTHENTICATED');
  }

  /** Fire and forget. Rows as for failed sign-ins: at most two for the same action on a subject in a minute. */
  recordRepeatedRefusal(action: AuditedAction, code: RefusalCode): void {
    const recorded = this.#recordOnce(action, code);
    if (recorded === null) this.#drop(code);
    // Logged by `#writeOneByOne`, or as lost on close.
    else recorded.catch(() => {});
  }

  /**
   * Fire and forget. Beyond 60 refusals of one user in a minute, refusals are counted but not written; while 1,000 rows wait
   * for the store, they are dropped like failed sign-ins.
   */
  recordRefusal(action: AuditedAction, code: RefusalCode): void {
    const at = this.#parts.clock.now();
    if (this.#isOverLimit(action.by, at)) this.#parts.dropped?.(code);
    else if (this.#isBehind) this.#drop(code);
    else this.#add({ row: { ...action, id: this.#parts.newId(), at, outcome: code, count: 1 }, waiter: null });
  }

  get #isBehind(): boolean {
    return this.#pending.length >= MAX_PENDING;
  }

  #drop(code: RefusalCode): void {
    this.#parts.dropped?.(code);
    if (this.#isBehind) this.#dropped += 1;
  }

  sizes(): CollectionSizes {
    return {
      audit_waiting: this.#pending.length,
      audit_refused_users: this.#refusals.size,
      audit_repeated: this.#repeated.size,
    };
  }

  /** Writes the pending rows for at most `timeoutMs`; the rest is logged as lost. */
  async close(timeoutMs = CLOSE_MS): Promise<void> {
    this.#writeCounts(Number.POSITIVE_INFINITY);
    await Promise.race([this.#writing, pause(timeoutMs)]);
    this.#closed = true;
    if (this.#pending.length > 0)
      this.#parts.log.error({ rows: this.#pending.length }, 'audit rows lost on close: store unavailable');
    for (const { waiter } of this.#pending) waiter?.reject(new StoreUnavailable('the service is closed'));
  }

  #record(action: AuditedAction & Pick<AuditRow, 'outcome' | 'count'>, id = this.#parts.newId()): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#add({
        row: { ...action, id, at: this.#parts.clock.now() },
        waiter: { resolve, reject },
      });
    });
  }

  /** Writes a row, or counts a repetition of one. Null if too many are counted already. */
  #recordOnce(action: AuditedAction, outcome: AuditRow['outcome']): Promise<void> | null {
    const now = elapsedOf(this.#parts.clock);
    const { tenantId, by, key, via, subject } = action;
    const name = JSON.stringify([tenantId, by, key, via, action.action, subject, outcome]);
    const before = this.#repeated.get(name);
    if (before !== undefined && now - before.since < MINUTE_MS) {
      before.count += 1;
      before.last = { ...action, outcome };
      return before.first;
    }
    if (before !== undefined) this.#writeCounts(now);
    if (this.#repeated.size >= MAX_REPEATED || this.#closed) return null;
    // The caller of a done action waits for its row.
    if (this.#isBehind && outcome !== 'done') return null;
    const first = this.#record({ ...action, outcome, count: 1 });
    this.#repeated.set(name, { since: now, last: { ...action, outcome }, count: 0, first });
    // The next one is written as the first of its minute.
    first.catch(() => this.#repeated.delete(name));
    this.#counting ??= setInterval(() => this.#writeCounts(elapsedOf(this.#parts.clock)), MINUTE_MS).unref();
    return first;
  }

  /** Writes the repetitions of the minutes that have ended. */
  #writeCounts(now: Milliseconds): void {
    for (const [name, { since, last, count }] of this.#repeated) {
      if (now - since < MINUTE_MS) continue;
      this.#repeated.delete(name);
      if (count === 0) continue;
      if (this.#isBehind) {
        this.#dropped += count;
        continue;
      }
      const row = { ...last, id: this.#parts.newId(), at: this.#parts.clock.now(), count };
      this.#add({ row, waiter: null });
    }
    if (this.#repeated.size > 0 || this.#counting === null) return;
    clearInterval(this.#counting);
    this.#counting = null;
  }

  /** Rows added while a batch is written go into the next batch. */
  async #write(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.length > 0 && !this.#closed) {
      const batch = this.#pending.slice(0, MAX_BATCH);
      const why = await this.#append(batch);
      if (why !== null) await this.#writeOneByOne(batch, why);
      this.#pending = this.#pending.slice(batch.length);
      if (this.#dropped > 0 && this.#pending.length === 0) this.#addDropped();
    }
    this.#busy = false;
  }

  /**
   * Retries while the store is unavailable. Returns null once the rows are stored, else the error of a row that the
   * store rejects.
   */
  async #append(batch: readonly PendingRow[]): Promise<unknown> {
    for (let failures = 1; ; failures++) {
      try {
        await this.#parts.store.audit.append(batch.map(({ row }) => row));
        for (const { waiter } of batch) waiter?.resolve();
        return null;
      } catch (error) {
        if (this.#closed || !(error instanceof StoreUnavailable || error instanceof CommitUnknown)) return error;
        await pause(backoffDelay(failures, RETRY), undefined, { ref: false });
      }
    }
  }

  /** The store rejects one row for its content: the others are stored. */
  async #writeOneByOne(batch: readonly PendingRow[], why: unknown): Promise<void> {
    for (const one of batch) {
      const refused = batch.length > 1 ? await this.#append([one]) : why;
      // `close` has rejected the remaining waiters.
      if (this.#closed) return;
      if (refused === null) continue;
      const { row, waiter } = one;
      this.#parts.log.error(
        { err: refused, action: row.action, request_id: row.requestId },
        'audit row rejected by the store',
      );
      waiter?.reject(refused);
    }
  }

  /** One row of the service with the number of what was dropped. No user caused it. */
  #addDropped(): void {
    const [id, requestId] = [this.#parts.newId(), this.#parts.newId()];
    const row: AuditRow = {
      ...{ id, tenantId: null, at: this.#parts.clock.now(), by: NIL_UUID, key: null, via: 'service', requestId },
      ...{ action: 'dropAuditEntries', subject: 'service', outcome: 'done', address: null, client: null },
      count: this.#dropped,
    };
    this.#dropped = 0;
    this.#pending.push({ row, waiter: null });
  }

  #add(one: PendingRow): void {
    this.#pending.push(one);
    if (this.#busy || this.#closed) return;
    this.#busy = true;
    this.#writing = this.#write();
  }

  #isOverLimit(by: Uuid, now: EpochMs): boolean {
    const current = Math.floor(now / MINUTE_MS);
    if (current !== this.#minute) this.#refusals.clear();
    this.#minute = current;
    const count = (this.#refusals.get(by) ?? 0) + 1;
    this.#refusals.set(by, count);
    return count > MAX_REFUSALS_PER_MINUTE;
  }
}
