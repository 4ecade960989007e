import { setTimeout as pause } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { AuditRow } from '../store/contract/audit.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../store/contract.ts';

/** An action with its actor and subject, as it is audited. */
export type AuditedAction = Omit<AuditRow, 'id' | 'at' | 'outcome'>;

/** Writer of the audit's own rows: actions that no actor's journal records. */
export interface AuditWriter extends SizeReporter {
  /**
   * Resolves when the row is durable. Retried for as long as the store is unavailable; the caller may stop waiting
   * earlier.
   */
  recordDone(action: AuditedAction): Promise<void>;
  /** Fire and forget. Beyond 60 refusals of one user in a minute, refusals are counted but not written. */
  recordRefusal(action: AuditedAction, code: RefusalCode): void;
  /** Writes the pending rows for at most `timeoutMs`; the rest is logged as lost. */
  close(timeoutMs?: number): Promise<void>;
}

/** Per user. */
const MAX_REFUSALS_PER_MINUTE = 60;
/** Refusals that may be pending while the store is unavailable. */
const MAX_PENDING_REFUSALS = 1_000;
const MAX_BATCH = 500;
const MINUTE_MS = 60_000;
const RETRY: BackoffLimits = { firstMs: 50, maxMs: 1_000 };
const CLOSE_MS = 2_000;

interface PendingRow {
  row: AuditRow;
  /** Null for a refusal: its caller does not wait for the row. */
  waiter: { resolve(): void; reject(why: unknown): void } | null;
}

export function makeAuditWriter(parts: {
  store: { audit: Pick<Store['audit'], 'append'> };
  clock: Clock;
  newId(): Uuid;
  log: Log;
  /** Called for each refusal that is not written. */
  dropped?(code: RefusalCode): void;
}): AuditWriter {
  const { store, clock, newId, log, dropped = () => {} } = parts;
  const refusals = new Map<Uuid, number>();
  let minute = 0;
  let pending: PendingRow[] = [];
  let writing: Promise<void> = Promise.resolve();
  let busy = false;
  let closed = false;

  /** Rows added while a batch is written go into the next batch. */
  async function write(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (pending.length > 0 && !closed) {
      const batch = pending.slice(0, MAX_BATCH);
      const why = await append(batch);
      if (why !== null) await writeOneByOne(batch, why);
      pending = pending.slice(batch.length);
    }
    busy = false;
  }

  /**
   * Retries while the store is unavailable. Returns null once the rows are stored, else the error of a row that the
   * store rejects.
   */
  async function append(batch: readonly PendingRow[]): Promise<unknown> {
    for (let failures = 1; ; failures++) {
      try {
        await store.audit.append(batch.map(({ row }) => row));
        for (const { waiter } of batch) waiter?.resolve();
        return null;
      } catch (error) {
        if (closed || !(error instanceof StoreUnavailable || error instanceof CommitUnknown)) return error;
        await pause(backoffDelay(failures, RETRY), undefined, { ref: false });
      }
    }
  }

  /** The store rejects one row for its content: the others are stored. */
  async function writeOneByOne(batch: readonly PendingRow[], why: unknown): Promise<void> {
    for (const one of batch) {
      const refused = batch.length > 1 ? await append([one]) : why;
      // `close` has rejected the remaining waiters.
      if (closed) return;
      if (refused === null) continue;
      const { row, waiter } = one;
      log.error({ err: refused, action: row.action, request_id: row.requestId }, 'audit row rejected by the store');
      waiter?.reject(refused);
    }
  }

  function add(one: PendingRow): void {
    pending.push(one);
    if (busy || closed) return;
    busy = true;
    writing = write();
  }

  function isOverLimit(by: Uuid, now: EpochMs): boolean {
    const current = Math.floor(now / MINUTE_MS);
    if (current !== minute) refusals.clear();
    minute = current;
    const count = (refusals.get(by) ?? 0) + 1;
    refusals.set(by, count);
    return count > MAX_REFUSALS_PER_MINUTE || pending.length >= MAX_PENDING_REFUSALS;
  }

  return {
    recordDone: (action) =>
      new Promise((resolve, reject) => {
        add({ row: { ...action, id: newId(), at: clock.now(), outcome: 'done' }, waiter: { resolve, reject } });
      }),
    recordRefusal(action, code) {
      const at = clock.now();
      if (isOverLimit(action.by, at)) dropped(code);
      else add({ row: { ...action, id: newId(), at, outcome: code }, waiter: null });
    },
    sizes: () => ({ audit_waiting: pending.length, audit_refused_users: refusals.size }),
    async close(timeoutMs = CLOSE_MS) {
      await Promise.race([writing, pause(timeoutMs)]);
      closed = true;
      if (pending.length > 0) log.error({ rows: pending.length }, 'audit rows lost on close: store unavailable');
      for (const { waiter } of pending) waiter?.reject(new StoreUnavailable('the service is closed'));
    },
  };
}
