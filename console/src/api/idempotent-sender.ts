import { Problem } from './problem.ts';

/** The same request after this time is a new one. */
const REPEAT_WINDOW_MS = 60_000;

interface Attempt {
  /** Serialised request. */
  text: string;
  file: Blob | undefined;
  key: string;
  at: number;
  /** Null after a response or a lost connection. */
  running: Promise<unknown> | null;
}

export interface RequestIdentity {
  text: string;
  file?: Blob | undefined;
}

/** Sends repeated identical requests with the same idempotency key, so that a retry by the user is not carried out twice. */
export class IdempotentSender {
  #last: Attempt | null = null;

  /** `request` gets the idempotency key. */
  async send<T>({ text, file }: RequestIdentity, request: (key: string) => Promise<T>): Promise<T> {
    const last = this.#last;
    const isSame = last !== null && last.text === text && last.file === file && Date.now() - last.at < REPEAT_WINDOW_MS;
    if (isSame && last.running !== null) return last.running as Promise<T>;
    const attempt: Attempt = { text, file, key: isSame ? last.key : newKey(), at: Date.now(), running: null };
    this.#last = attempt;
    const running = request(attempt.key);
    attempt.running = running;
    try {
      const answer = await running;
      this.#forget(attempt);
      return answer;
    } catch (thrown) {
      attempt.running = null;
      if (!isOutcomeUnknown(thrown)) this.#forget(attempt);
      throw thrown;
    }
  }

  #forget(attempt: Attempt): void {
    if (this.#last === attempt) this.#last = null;
  }
}

/** Whether the request may have been carried out although it failed. */
export const isOutcomeUnknown = (thrown: unknown): boolean =>
  !(thrown instanceof Problem) || thrown.status === 0 || thrown.status >= 500 || thrown.code === 'CONFLICT';

/** `crypto.randomUUID` is not available on pages loaded over plain HTTP from another host. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
