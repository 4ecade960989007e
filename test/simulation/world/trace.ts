import { createHash } from 'node:crypto';

const CHUNK = 4_096;
const KEPT_LINES = 60;

/** Hash of everything that happens in a run, in order: two runs with the same hash behaved identically. */
export class Trace {
  readonly #hash = createHash('sha256');
  readonly #elapsed: () => number;
  readonly #print: ((line: string) => void) | null;
  #chunk: string[] = [];
  /** The newest lines, for the report of a failure. */
  readonly #last: string[] = [];

  constructor(elapsed: () => number, print: ((line: string) => void) | null) {
    this.#elapsed = elapsed;
    this.#print = print;
  }

  /** Records a task that ran; there are too many to print. */
  step(at: number, owner: string): void {
    this.#add(`${at} ${owner}`);
  }

  /** Records an event for readers of the trace. */
  note(who: string, what: string): void {
    const line = `${(this.#elapsed() / 1_000).toFixed(4).padStart(11)} ${who.padEnd(10)} ${what}`;
    this.#add(line);
    this.#print?.(line);
    this.#last.push(line);
    if (this.#last.length > KEPT_LINES) this.#last.shift();
  }

  last(): readonly string[] {
    return this.#last;
  }

  digest(): string {
    this.#flush();
    return this.#hash.copy().digest('hex');
  }

  #add(line: string): void {
    this.#chunk.push(line);
    if (this.#chunk.length >= CHUNK) this.#flush();
  }

  #flush(): void {
    this.#hash.update(this.#chunk.join('\n'));
    this.#chunk = [];
  }
}
