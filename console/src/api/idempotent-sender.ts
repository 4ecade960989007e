import { Problem } from './problem.ts';

/** What is asked for later than this is meant anew. */
const REPEAT_WINDOW_MS = 60_000;

interface Attempt {
  /** What was asked for. */
  text: string;
  file: Blob | undefined;
  key: string;
  at: number;
  /** Null once it is answered, or lost. */
  running: Promise<unknown> | null;
}

export interface RequestIdentity {
  text: string;
  file?: Blob | undefined;
}

/** A person who asks for the same twice, as nothing seemed to come of it, means it once. */
export class IdempotentSender {
  private last: Attempt | null = null;

  /** `ask` is given a key by which the service knows a repeat. */
  async send<T>({ text, file }: RequestIdentity, ask: (key: string) => Promise<T>): Promise<T> {
    const { last } = this;
    const isSame = last !== null && last.text === text && last.file === file && Date.now() - last.at < REPEAT_WINDOW_MS;
    if (isSame && last.running !== null) return last.running as Promise<T>;
    const attempt: Attempt = { text, file, key: isSame ? last.key : newKey(), at: Date.now(), running: null };
    this.last = attempt;
    const running = ask(attempt.key);
    attempt.running = running;
    try {
      const answer = await running;
      this.forget(attempt);
      return answer;
    } catch (thrown) {
      attempt.running = null;
      if (!isOutcomeUnknown(thrown)) this.forget(attempt);
      throw thrown;
    }
  }

  private forget(attempt: Attempt): void {
    if (this.last === attempt) this.last = null;
  }
}

/** Whether it may have been done although the answer does not say so. */
const isOutcomeUnknown = (thrown: unknown): boolean =>
  !(thrown instanceof Problem) || thrown.status === 0 || thrown.status >= 500 || thrown.code === 'CONFLICT';

/** `crypto.randomUUID` is not there on a page that came over plain HTTP from another computer. */
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
