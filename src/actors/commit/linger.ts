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
  readonly #turn: BatchBuilder;
  readonly #companions: Enlistment;
  readonly #most: number;
  readonly #gather: () => UnitOfWork[];
  readonly #write: (turn: BatchBuilder) => void;
  #passes = LINGER_PASSES;
  #looking = false;
  #late = false;
  #ended = false;
  #handle: NodeJS.Timeout | null = null;

  /** `most`: actors at which it is full. */
  constructor(
    turn: BatchBuilder,
    parts: { companions: Enlistment; most: number; gather(): UnitOfWork[]; write(turn: BatchBuilder): void },
  ) {
    this.#turn = turn;
    this.#companions = parts.companions;
    this.#most = parts.most;
    this.#gather = parts.gather;
    this.#write = parts.write;
  }

  /** Has it written, unless there may be more to come. */
  writeOrLinger(): void {
    const { fanInTargets, units } = this.#turn;
    const open = fanInTargets.size > 0 && units.length < this.#most;
    if (open && !this.#late && this.#companions.expectsMoreMessages(this.#turn)) {
      this.#passes = 0;
      this.#handle ??= setTimeout(() => {
        this.#late = true;
        this.collectMore();
      }, LINGER_MS);
    } else if (open && this.#passes > 0) this.collectMore();
    else {
      this.close();
      this.#write(this.#turn);
    }
  }

  /** Something is there, or may be. */
  collectMore(): void {
    if (this.#looking) return;
    this.#looking = true;
    setImmediate(() => {
      this.#looking = false;
      if (this.#ended) return;
      const more = this.#gather();
      this.#companions.addUnits(this.#turn, more);
      this.#passes = more.length > 0 ? this.#passes - 1 : 0;
      this.writeOrLinger();
    });
  }

  /** It takes nothing more in. */
  close(): void {
    this.#ended = true;
    if (this.#handle !== null) clearTimeout(this.#handle);
  }
}
