import type { BatchBuilder, Enlistment } from './enlist.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** Passes of the event loop that a turn may stay open for what comes unexpected. */
const LINGER_PASSES = 4;
/** And for what is expected any moment: as short as a timer can be. */
const LINGER_MS = 1;

/**
 * A turn that was gathered, and takes more in before it is written where it holds somebody whom several tell, as its commands tell a
 * plan: what came too late would have to wait for its whole commit. It takes what the next passes of the event loop bring, as long as they
 * bring anything. Where the others are expected any moment, and nobody else is in the turn, the loop may sleep until they are there.
 */
export class LingeringBatch {
  readonly #batch: BatchBuilder;
  readonly #enlistment: Enlistment;
  readonly #maxUnits: number;
  readonly #gather: () => UnitOfWork[];
  readonly #commit: (batch: BatchBuilder) => void;
  #passes = LINGER_PASSES;
  #collecting = false;
  #lingered = false;
  #closed = false;
  #timer: NodeJS.Timeout | null = null;

  /** `most`: actors at which it is full. */
  constructor(
    batch: BatchBuilder,
    parts: { enlistment: Enlistment; maxUnits: number; gather(): UnitOfWork[]; commit(batch: BatchBuilder): void },
  ) {
    this.#batch = batch;
    this.#enlistment = parts.enlistment;
    this.#maxUnits = parts.maxUnits;
    this.#gather = parts.gather;
    this.#commit = parts.commit;
  }

  /** Has it written, unless there may be more to come. */
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

  /** Something is there, or may be. */
  collectMore(): void {
    if (this.#collecting) return;
    this.#collecting = true;
    setImmediate(() => {
      this.#collecting = false;
      if (this.#closed) return;
      const more = this.#gather();
      this.#enlistment.addUnits(this.#batch, more);
      this.#passes = more.length > 0 ? this.#passes - 1 : 0;
      this.writeOrLinger();
    });
  }

  /** It takes nothing more in. */
  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }
}
