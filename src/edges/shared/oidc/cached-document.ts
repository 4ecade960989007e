import type { Clock } from '../../../domain/clock.ts';
import type { Log } from '../../../domain/log.ts';
import { ProviderUnavailable } from '../../../operations/faults.ts';

/** A document that somebody else publishes, kept so that it is there while they are not. */
export interface CachedDocument<T> {
  /** As it was last read; read anew in the background when it is old. Throws `ProviderAway` where there is none. */
  get(): Promise<T>;
  /**
   * Reads it anew, because what was looked for is not in it. False where that was done a moment ago: then it is not there.
   * Throws `ProviderAway`.
   */
  refresh(): Promise<boolean>;
}

/** Older than this, it is read anew while the old one still serves. */
const FRESH_MS = 600_000;
/** Older than this it serves no more: a key that was withdrawn must not be good for ever while nobody can tell us. */
const USABLE_MS = 86_400_000;
/** Nobody makes us ask more often, whatever keys their tokens name. */
const RENEW_MS = 10_000;
/** After a failure. */
const RETRY_MS = 2_000;

export function makeCachedDocument<T>(
  what: string,
  load: () => Promise<T>,
  { clock, log }: { clock: Clock; log: Log },
): CachedDocument<T> {
  let kept: { value: T; at: number } | null = null;
  let failedAt: number | null = null;
  let loading: Promise<T> | null = null;

  const age = (): number => (kept === null ? Number.POSITIVE_INFINITY : clock.now() - kept.at);
  const failedJustNow = (): boolean => failedAt !== null && clock.now() - failedAt < RETRY_MS;

  function read(): Promise<T> {
    if (failedJustNow()) return Promise.reject(new ProviderUnavailable(`${what}: not read`));
    loading ??= load()
      .then(
        (value) => {
          kept = { value, at: clock.now() };
          failedAt = null;
          return value;
        },
        (error: unknown) => {
          failedAt = clock.now();
          log.warn({ err: error, what }, 'the identity provider does not answer as it should');
          throw new ProviderUnavailable(`${what}: not read`);
        },
      )
      .finally(() => {
        loading = null;
      });
    return loading;
  }

  return {
    async get() {
      if (kept === null || age() >= USABLE_MS) return read();
      if (age() >= FRESH_MS) read().catch(() => {});
      return kept.value;
    },
    async refresh() {
      if (age() < RENEW_MS) return false;
      await read();
      return true;
    },
  };
}
