import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Services } from '../../operations/operation.ts';
import type { SessionToken } from '../../protocol/session-token.ts';

interface Waiter {
  token: SessionToken;
  resolve(isFirst: boolean): void;
  reject(error: unknown): void;
}

const BATCH = 500;

/**
 * Batched writer that marks session tokens as used in the store: tokens that arrive during a statement share the next.
 */
export class UsedTokenWriter {
  readonly #store: Pick<Services['store'], 'sessionTokens'>;
  #waiting: Waiter[] = [];
  #running = false;

  constructor(store: Pick<Services['store'], 'sessionTokens'>) {
    this.#store = store;
  }

  sizes(): CollectionSizes {
    return { mqtt_sign_ins_marking: this.#waiting.length };
  }

  /** Resolves when the mark is durable; false if the token was used before. */
  markUsed(token: SessionToken): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ token, resolve, reject });
      if (this.#running) return;
      this.#running = true;
      setImmediate(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      try {
        const first = await this.#store.sessionTokens.markUsed(batch.map(({ token }) => token));
        for (const { token, resolve } of batch) resolve(first.has(token.clientId));
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#running = false;
  }
}
