import type { Companions, Gathering } from './companions.ts';
import type { Draft } from './draft.ts';

/** Passes of the event loop that a turn may stay open for what comes unexpected. */
const OPEN_PASSES = 4;
/** And for what is expected any moment: as short as a timer can be. */
const OPEN_MS = 1;

/**
 * A turn that was gathered, and takes more in before it is written where it holds somebody whom several tell, as its commands tell a
 * plan: what came too late would have to wait for its whole commit. It takes what the next passes of the event loop bring, as long as they
 * bring anything. Where the others are expected any moment, and nobody else is in the turn, the loop may sleep until they are there.
 */
export class OpenTurn {
  readonly #turn: Gathering;
  readonly #companions: Companions;
  readonly #most: number;
  readonly #gather: () => Draft[];
  readonly #write: (turn: Gathering) => void;
  #passes = OPEN_PASSES;
  #looking = false;
  #late = false;
  #ended = false;
  #handle: NodeJS.Timeout | null = null;

  /** `most`: actors at which it is full. */
  constructor(
    turn: Gathering,
    parts: { companions: Companions; most: number; gather(): Draft[]; write(turn: Gathering): void },
  ) {
    this.#turn = turn;
    this.#companions = parts.companions;
    this.#most = parts.most;
    this.#gather = parts.gather;
    this.#write = parts.write;
  }

  /** Has it written, unless there may be more to come. */
  fill(): void {
    const { shared, drafts } = this.#turn;
    const open = shared.size > 0 && drafts.length < this.#most;
    if (open && !this.#late && this.#companions.expects(this.#turn)) {
      this.#passes = 0;
      this.#handle ??= setTimeout(() => {
        this.#late = true;
        this.takeIn();
      }, OPEN_MS);
    } else if (open && this.#passes > 0) this.takeIn();
    else {
      this.end();
      this.#write(this.#turn);
    }
  }

  /** Something is there, or may be. */
  takeIn(): void {
    if (this.#looking) return;
    this.#looking = true;
    setImmediate(() => {
      this.#looking = false;
      if (this.#ended) return;
      const more = this.#gather();
      this.#companions.join(this.#turn, more);
      this.#passes = more.length > 0 ? this.#passes - 1 : 0;
      this.fill();
    });
  }

  /** It takes nothing more in. */
  end(): void {
    this.#ended = true;
    if (this.#handle !== null) clearTimeout(this.#handle);
  }
}
