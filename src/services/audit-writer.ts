import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { AuditRow } from '../store/contract/audit.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../store/contract.ts';

/** Who did or tried what, to what. */
export type AuditedAction = Omit<AuditRow, 'id' | 'at' | 'outcome'>;

/** The audit's own rows: what the journals of actors do not tell. */
export interface AuditWriter extends SizeReporter {
  /** Resolves when it is durable. It is kept however long the store is away; whoever waits may give up before. */
  recordDone(deed: AuditedAction): Promise<void>;
  /** Nobody waits for it; who is refused again and again is written down so often in a minute, and then counted only. */
  recordRefusal(deed: AuditedAction, code: RefusalCode): void;
  /** Writes what waits, as far as the store lets it within `patienceMs`. */
  close(patienceMs?: number): Promise<void>;
}

/** Of one user in one minute. */
const MAX_REFUSALS_PER_MINUTE = 60;
/** Refusals that may wait for the store. */
const MAX_PENDING_REFUSALS = 1_000;
const MAX_BATCH = 500;
const MINUTE_MS = 60_000;
const MIN_RETRY_MS = 50;
const MAX_RETRY_MS = 1_000;
const CLOSE_MS = 2_000;

interface PendingRow {
  row: AuditRow;
  /** Null where nobody waits. */
  waiter: { resolve(): void; reject(why: unknown): void } | null;
}

export function makeAuditWriter(parts: {
  store: { audit: Pick<Store['audit'], 'append'> };
  clock: Clock;
  newId(): Uuid;
  log: Log;
  /** Counts refusals that are not written down. */
  dropped?(code: RefusalCode): void;
}): AuditWriter {
  const { store, clock, newId, log, dropped = () => {} } = parts;
  const refusals = new Map<Uuid, number>();
  let minute = 0;
  let waiting: PendingRow[] = [];
  let writing: Promise<void> = Promise.resolve();
  let busy = false;
  let closed = false;

  /** What comes while one batch is written goes with the next. */
  async function write(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    while (waiting.length > 0 && !closed) {
      const batch = waiting.slice(0, MAX_BATCH);
      const why = await keep(batch);
      if (why !== null) await singly(batch, why);
      waiting = waiting.slice(batch.length);
    }
    busy = false;
  }

  /** Null once they are kept, however long the store is away; else why it refuses one of them. */
  async function keep(batch: readonly PendingRow[]): Promise<unknown> {
    for (let wait = MIN_RETRY_MS; ; wait = Math.min(2 * wait, MAX_RETRY_MS)) {
      try {
        await store.audit.append(batch.map(({ row }) => row));
        for (const { waiter } of batch) waiter?.resolve();
        return null;
      } catch (error) {
        if (closed || !(error instanceof StoreUnavailable || error instanceof CommitUnknown)) return error;
        await pause(wait, undefined, { ref: false });
      }
    }
  }

  /** The store refuses one of them for what is in it: the others are kept. */
  async function singly(batch: readonly PendingRow[], why: unknown): Promise<void> {
    for (const one of batch) {
      const refused = batch.length > 1 ? await keep([one]) : why;
      // Whoever still waited was told.
      if (closed) return;
      if (refused === null) continue;
      const { row, waiter } = one;
      log.error(
        { err: refused, action: row.action, request_id: row.requestId },
        'the store refused a row of the audit',
      );
      waiter?.reject(refused);
    }
  }

  function add(one: PendingRow): void {
    waiting.push(one);
    if (busy || closed) return;
    busy = true;
    writing = write();
  }

  function isTooMuch(by: Uuid, now: EpochMs): boolean {
    const current = Math.floor(now / MINUTE_MS);
    if (current !== minute) refusals.clear();
    minute = current;
    const count = (refusals.get(by) ?? 0) + 1;
    refusals.set(by, count);
    return count > MAX_REFUSALS_PER_MINUTE || waiting.length >= MAX_PENDING_REFUSALS;
  }

  return {
    recordDone: (deed) =>
      new Promise((resolve, reject) => {
        add({ row: { ...deed, id: newId(), at: clock.now(), outcome: 'done' }, waiter: { resolve, reject } });
      }),
    recordRefusal(deed, code) {
      const at = clock.now();
      if (isTooMuch(deed.by, at)) dropped(code);
      else add({ row: { ...deed, id: newId(), at, outcome: code }, waiter: null });
    },
    sizes: () => ({ audit_waiting: waiting.length, audit_refused_users: refusals.size }),
    async close(patienceMs = CLOSE_MS) {
      await Promise.race([writing, pause(patienceMs)]);
      closed = true;
      if (waiting.length > 0) log.error({ rows: waiting.length }, 'rows of the audit are lost: the store is away');
      for (const { waiter } of waiting) waiter?.reject(new StoreUnavailable('the service is closed'));
    },
  };
}
