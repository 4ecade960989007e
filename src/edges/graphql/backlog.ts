import { GraphQLError } from 'graphql';

/** Above this length a subscription's backlog is conflated: it keeps only the newest item of each subject. */
const CONFLATE_ABOVE = 256;
/** Pending items, after which the subscription ends with an error. */
const MAX_PENDING = 10_000;

const slowConsumerError = () =>
  new GraphQLError('The client reads too slowly. Subscribe again.', {
    extensions: { code: 'OVERLOADED', status: 503 },
  });

/** Bounded queue between the event source and one subscription: in order, and conflated by subject for a slow consumer. */
export class Backlog<T> implements AsyncGenerator<T, void> {
  readonly #pending = new Map<string, T>();
  readonly #ended: () => void;
  #count = 0;
  #isOver = false;
  #fault: Error | null = null;
  #wake: (() => void) | null = null;

  /** `ended` is called once, when the subscription is over. */
  constructor(ended: () => void) {
    this.#ended = ended;
  }

  push(subject: string, item: T): void {
    if (this.#isOver) return;
    const key = this.#pending.size < CONFLATE_ABOVE ? `${this.#count++}` : subject;
    // A newer item moves to the end, so that the last one delivered is the current state.
    this.#pending.delete(key);
    this.#pending.set(key, item);
    if (this.#pending.size > MAX_PENDING) this.#end(slowConsumerError());
    this.#wake?.();
  }

  #end(fault: Error | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#fault = fault;
    this.#pending.clear();
    this.#ended();
    this.#wake?.();
  }

  /** Ends the subscription with this error; what waits is dropped. */
  fail(fault: Error): void {
    this.#end(fault);
  }

  async next(): Promise<IteratorResult<T, void>> {
    while (this.#pending.size === 0) {
      if (this.#fault !== null) throw this.#fault;
      if (this.#isOver) return { done: true, value: undefined };
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = null;
    }
    const [[key, value]] = this.#pending as unknown as [[string, T]];
    this.#pending.delete(key);
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
