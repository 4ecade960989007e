import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { AuditRow } from '../store/contract/audit.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../store/contract.ts';

/** An action with its actor and subject, as it is audited. */
export type AuditedAction = Omit<AuditRow, 'id' | 'at' | 'outcome'>;

/** Per user. */
const MAX_REFUSALS_PER_MINUTE = 60;
/** Refusals that may be pending while the store is unavailable. */
const MAX_PENDING_REFUSALS = 1_000;
const MAX_BATCH = 500;
const MINUTE_MS = 60_000;
const RETRY: BackoffLimits = { firstMs: 50, maxMs: 1_000 };
const CLOSE_MS = 2_000;

export interface AuditWriterParts {
  store: { audit: Pick<Store['audit'], 'append'> };
  clock: Clock;
  newId(): Uuid;
  log: Log;
  /** Called for each refusal that is not written. */
  dropped?(code: RefusalCode): void;
}

interface PendingRow {
  row: AuditRow;
  /** Null for a refusal: its caller does not wait for the row. */
  waiter: { resolve(): void; reject(why: unknown): void } | null;
}

/** Writer of the audit's own rows: actions that no actor's journal records. */
export class AuditWriter implements SizeReporter {
  readonly #parts: AuditWriterParts;
  readonly #refusals = new Map<Uuid, number>();
  #minute = 0;
  #pending: PendingRow[] = [];
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #closed = false;

  constructor(parts: AuditWriterParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the row is durable. Retried for as long as the store is unavailable; the caller may stop waiting
   * earlier.
   */
  recordDone(action: AuditedAction): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#add({
        row: { ...action, id: this.#parts.newId(), at: this.#parts.clock.now(), outcome: 'done' },
        waiter: { resolve, reject },
      });
    });
  }

  /** Fire and forget. Beyond 60 refusals of one user in a minute, refusals are counted but not written. */
  recordRefusal(action: AuditedAction, code: RefusalCode): void {
    const at = this.#parts.clock.now();
    if (this.#isOverLimit(action.by, at)) this.#parts.dropped?.(code);
    else this.#add({ row: { ...action, id: this.#parts.newId(), at, outcome: code }, waiter: null });
  }

  sizes(): CollectionSizes {
    return { audit_waiting: this.#pending.length, audit_refused_users: this.#refusals.size };
  }

  /** Writes the pending rows for at most `timeoutMs`; the rest is logged as lost. */
  async close(timeoutMs = CLOSE_MS): Promise<void> {
    await Promise.race([this.#writing, pause(timeoutMs)]);
    this.#closed = true;
    if (this.#pending.length > 0)
      this.#parts.log.error({ rows: this.#pending.length }, 'audit rows lost on close: store unavailable');
    for (const { waiter } of this.#pending) waiter?.reject(new StoreUnavailable('the service is closed'));
  }

  /** Rows added while a batch is written go into the next batch. */
  async #write(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.length > 0 && !this.#closed) {
      const batch = this.#pending.slice(0, MAX_BATCH);
      const why = await this.#append(batch);
      if (why !== null) await this.#writeOneByOne(batch, why);
      this.#pending = this.#pending.slice(batch.length);
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
    return count > MAX_REFUSALS_PER_MINUTE || this.#pending.length >= MAX_PENDING_REFUSALS;
  }
}
