import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import { RefusedError, UnreachableError } from './errors.ts';
import type { UpdateSubscription } from './update-stream.ts';

/** Delays before the attempts to reopen the stream: 60 s in all, in which a service restarts. */
const REOPEN: BackoffLimits = { firstMs: 500, maxMs: 15_000 };
const MAX_REOPEN_ATTEMPTS = 8;
/** A stream that was open for this long resets the delays. */
const STABLE_MS = 60_000;
const CLOSE_TRY_AGAIN_LATER = 1013;

/** Errors that a retry may resolve: no connection, or a service that is stopping or busy. */
export const isRetryable = (thrown: unknown): boolean =>
  thrown instanceof UnreachableError ||
  (thrown instanceof RefusedError && [CLOSE_TRY_AGAIN_LATER, 503].includes(thrown.problem.status));

/** False if the stream was lost before one of the promises resolved. Throws an error that a retry cannot resolve. */
export async function resolvesBeforeLoss(
  stream: UpdateSubscription,
  ends: readonly (Promise<void> | undefined)[],
): Promise<boolean> {
  const lost = stream.ended.then(
    () => false,
    (thrown: unknown) => {
      if (isRetryable(thrown)) return false;
      throw thrown;
    },
  );
  const resolved = ends.filter((end) => end !== undefined).map((end) => end.then(() => true));
  return Promise.race([...resolved, lost]);
}

/**
 * Returns a function that reopens the stream with increasing delays, which a stable stream resets. It throws if the
 * service does not answer. It returns null after `cancelled`, and if the service answers but keeps closing streams.
 */
export function makeReopener(
  open: () => Promise<UpdateSubscription>,
  cancelled?: Promise<void>,
): () => Promise<UpdateSubscription | null> {
  let attempts = 0;
  let openedAt = performance.now();
  const state = { cancelled: false };
  void cancelled?.then(() => {
    state.cancelled = true;
  });
  return async () => {
    if (performance.now() - openedAt >= STABLE_MS) attempts = 0;
    let failure: unknown = null;
    while (attempts < MAX_REOPEN_ATTEMPTS) {
      attempts += 1;
      await delay(backoffDelay(attempts, REOPEN), cancelled);
      if (state.cancelled) return null;
      try {
        const stream = await open();
        openedAt = performance.now();
        if (!state.cancelled) return stream;
        stream.close();
        return null;
      } catch (thrown) {
        if (state.cancelled) return null;
        if (!isRetryable(thrown)) throw thrown;
        failure = thrown;
      }
    }
    if (failure !== null) throw failure;
    return null;
  };
}

/** Resolves after `ms`, or once `cancelled` resolves; then no timer keeps the process running. */
const delay = (ms: number, cancelled: Promise<void> | undefined): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    void cancelled?.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
