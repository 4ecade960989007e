import { CALLER_TIMEOUT_MS, type Store, StoreUnavailable } from '../store/contract.ts';

const PING_TIMEOUT_MS = 500;

/**
 * Distinguishes a busy store, which is waited for, from an unresponsive one. One instance for a store: all waiting
 * callers share one ping at a time.
 */
export class StoreLiveness {
  readonly #store: Pick<Store, 'ping'>;
  /** Time after which pending work triggers a ping. */
  readonly #pingAfterMs: number;
  #pinging: Promise<void> | null = null;

  constructor(store: Pick<Store, 'ping'>, pingAfterMs = CALLER_TIMEOUT_MS) {
    this.#store = store;
    this.#pingAfterMs = pingAfterMs;
  }

  /**
   * Waits for `work` while the store answers pings. Otherwise throws `StoreUnavailable`; the work continues in the
   * background.
   */
  guard<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let settled = false;
      const check = () => {
        this.#ping().then(
          () => {
            if (!settled) timer = setTimeout(check, this.#pingAfterMs);
          },
          () => reject(new StoreUnavailable('no answer from the store')),
        );
      };
      let timer = setTimeout(check, this.#pingAfterMs);
      const settle = () => {
        settled = true;
        clearTimeout(timer);
      };
      work.then(
        (value) => {
          settle();
          resolve(value);
        },
        (error: unknown) => {
          settle();
          reject(error);
        },
      );
    });
  }

  #ping(): Promise<void> {
    this.#pinging ??= this.#store.ping(PING_TIMEOUT_MS).finally(() => {
      this.#pinging = null;
    });
    return this.#pinging;
  }
}
