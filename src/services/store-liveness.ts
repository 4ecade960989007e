import { StoreUnavailable } from '../store/contract.ts';

/**
 * Waits for `work` while the store answers pings. Otherwise throws `StoreUnavailable`; the work continues in the
 * background.
 */
export type LivenessGuard = <T>(work: Promise<T>) => Promise<T>;

/** Time after which pending work triggers a ping. */
const PING_AFTER_MS = 2_000;
const PING_TIMEOUT_MS = 500;

/** Distinguishes a busy store, which is waited for, from an unresponsive one. All waiting callers share one ping. */
export function makeLivenessGuard(
  ping: (timeoutMs: number) => Promise<void>,
  pingAfterMs = PING_AFTER_MS,
): LivenessGuard {
  let pinging: Promise<void> | null = null;
  const isAlive = (): Promise<void> => {
    pinging ??= ping(PING_TIMEOUT_MS).finally(() => {
      pinging = null;
    });
    return pinging;
  };

  return (work) =>
    new Promise((resolve, reject) => {
      let settled = false;
      let timer = setTimeout(check, pingAfterMs);
      const settle = () => {
        settled = true;
        clearTimeout(timer);
      };
      function check() {
        isAlive().then(
          () => {
            if (!settled) timer = setTimeout(check, pingAfterMs);
          },
          () => reject(new StoreUnavailable('no answer from the store')),
        );
      }
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
