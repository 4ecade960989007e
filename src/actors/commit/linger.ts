import type { BatchBuilder, Enlistment } from './enlist.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** Passes of the event loop that a batch may stay open for unexpected messages. */
const LINGER_PASSES = 4;
/** Wait for expected messages: the shortest possible timer. */
const LINGER_MS = 1;

/**
 * Lingering batch: a batch that stays open before it is written because several actors message one of its actors, as
 * commands message their plan (Kafka: `linger.ms`). A message that misses the batch would wait until its commit ends. It
 * collects on the next passes of the event loop, as long as they bring anything. If all its actors belong to such a
 * fan-in and more messages are expected, it waits up to `LINGER_MS` for them.
 */
export class LingeringBatch {
  readonly #batch: BatchBuilder;
  readonly #enlistment: Enlistment;
  readonly #maxUnits: number;
  readonly #collect: () => UnitOfWork[];
  readonly #commit: (batch: BatchBuilder) => void;
  #passes = LINGER_PASSES;
  #collecting = false;
  #lingered = false;
  #closed = false;
  #timer: NodeJS.Timeout | null = null;

  /** `maxUnits`: number of units at which the batch is full. */
  constructor(
    batch: BatchBuilder,
    parts: { enlistment: Enlistment; maxUnits: number; collect(): UnitOfWork[]; commit(batch: BatchBuilder): void },
  ) {
    this.#batch = batch;
    this.#enlistment = parts.enlistment;
    this.#maxUnits = parts.maxUnits;
    this.#collect = parts.collect;
    this.#commit = parts.commit;
  }

  /** Commits the batch, unless more messages may follow. */
  writeOrLinger(): void {
    const { fanInTargets, units } = this.#batch;
    const canGrow = fanInTargets.size > 0 && units.length < this.#maxUnits;
    if (canGrow && !this.#lingered && this.#enlistment.expectsMoreMessages(this.#batch)) {
      this.#passes = 0;
      this.#timer ??= setTimeout(() => {
        this.#lingered = true;
        this.collectMore();
      }, LINGER_MS);
    } else if (canGrow && this.#passes > 0) this.collectMore();
    else {
      this.close();
      this.#commit(this.#batch);
    }
  }

  /** Adds newly queued actors on the next pass of the event loop. */
  collectMore(): void {
    if (this.#collecting) return;
    this.#collecting = true;
    setImmediate(() => {
      this.#collecting = false;
      if (this.#closed) return;
      const more = this.#collect();
      this.#enlistment.addUnits(this.#batch, more);
      this.#passes = more.length > 0 ? this.#passes - 1 : 0;
      this.writeOrLinger();
    });
  }

  /** Accepts no more units. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }
}
