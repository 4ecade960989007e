import { GraphQLError } from 'graphql';

/** More that waits for one subscription is kept by its subject, the newest of each. */
const CONFLATE_ABOVE = 256;
/** Subjects that may wait; beyond it the subscription ends. */
const MAX_PENDING = 10_000;

const slowConsumerError = () =>
  new GraphQLError('Too slow: subscribe again.', { extensions: { code: 'OVERLOADED', status: 503 } });

/** What happened and was not taken yet, in order; for who takes it too slowly the newest of each subject. */
export class Backlog<T> implements AsyncGenerator<T, void> {
  readonly #waiting = new Map<string, T>();
  readonly #ended: () => void;
  #count = 0;
  #over = false;
  #fault: Error | null = null;
  #wake: (() => void) | null = null;

  /** `ended` is called once nobody takes anything more. */
  constructor(ended: () => void) {
    this.#ended = ended;
  }

  push(subject: string, item: T): void {
    if (this.#over) return;
    const key = this.#waiting.size < CONFLATE_ABOVE ? `${this.#count++}` : subject;
    // A newer one goes to the end: what is told last is what is so.
    this.#waiting.delete(key);
    this.#waiting.set(key, item);
    if (this.#waiting.size > MAX_PENDING) this.#end(slowConsumerError());
    this.#wake?.();
  }

  #end(fault: Error | null): void {
    if (this.#over) return;
    this.#over = true;
    this.#fault = fault;
    this.#waiting.clear();
    this.#ended();
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<T, void>> {
    while (this.#waiting.size === 0) {
      if (this.#fault !== null) throw this.#fault;
      if (this.#over) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
    const [[key, value]] = this.#waiting as unknown as [[string, T]];
    this.#waiting.delete(key);
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<T, void>> {
    this.#end(null);
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<IteratorResult<T, void>> {
    this.#end(null);
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end(null);
  }
}
