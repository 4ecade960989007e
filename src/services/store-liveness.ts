import { StoreUnavailable } from '../store/contract.ts';

/** Waits for `work`, but not for a store that is away: then throws `StoreUnavailable`, and the work goes on unseen. */
export type LivenessGuard = <T>(work: Promise<T>) => Promise<T>;

/** A caller waits this long before anybody asks whether the store is still there. */
const PING_AFTER_MS = 2_000;
const PING_TIMEOUT_MS = 500;

/** A busy store is waited for, a silent one is not; `ping` tells them apart, once for all who wait. */
export function makeLivenessGuard(
  ping: (timeoutMs: number) => Promise<void>,
  patienceMs = PING_AFTER_MS,
): LivenessGuard {
  let asked: Promise<void> | null = null;
  const isThere = (): Promise<void> => {
    asked ??= ping(PING_TIMEOUT_MS).finally(() => {
      asked = null;
    });
    return asked;
  };

  return (work) =>
    new Promise((resolve, reject) => {
      let settled = false;
      let timer = setTimeout(look, patienceMs);
      const settle = () => {
        settled = true;
        clearTimeout(timer);
      };
      function look() {
        isThere().then(
          () => {
            if (!settled) timer = setTimeout(look, patienceMs);
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
