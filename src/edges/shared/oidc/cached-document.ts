import type { Clock } from '../../../domain/clock.ts';
import type { Log } from '../../../domain/log.ts';
import { ProviderUnavailable } from '../../../operations/faults.ts';

/** Cache of a document published by the identity provider; usable while the provider is unavailable. */
export interface CachedDocument<T> {
  /** The cached document; refreshed in the background when stale. Throws `ProviderUnavailable` if there is none. */
  get(): Promise<T>;
  /**
   * Refreshes the document because an entry is missing. False if it was refreshed a moment ago: then the entry does not
   * exist. Throws `ProviderUnavailable`.
   */
  refresh(): Promise<boolean>;
}

/** Older documents are refreshed in the background while they are still used. */
const FRESH_MS = 600_000;
/** Older documents are no longer used: a withdrawn key must not stay valid while the provider is unreachable. */
const USABLE_MS = 86_400_000;
/** Shortest interval between refreshes, whatever key ids the presented tokens contain. */
const REFRESH_INTERVAL_MS = 10_000;
/** Delay after a failure. */
const RETRY_MS = 2_000;

export function makeCachedDocument<T>(
  name: string,
  load: () => Promise<T>,
  { clock, log }: { clock: Clock; log: Log },
): CachedDocument<T> {
  let cached: { value: T; at: number } | null = null;
  let failedAt: number | null = null;
  let loading: Promise<T> | null = null;

  const age = (): number => (cached === null ? Number.POSITIVE_INFINITY : clock.now() - cached.at);
  const failedJustNow = (): boolean => failedAt !== null && clock.now() - failedAt < RETRY_MS;

  function read(): Promise<T> {
    if (failedJustNow()) return Promise.reject(new ProviderUnavailable(`${name}: not available`));
    loading ??= load()
      .then(
        (value) => {
          cached = { value, at: clock.now() };
          failedAt = null;
          return value;
        },
        (error: unknown) => {
          failedAt = clock.now();
          log.warn({ err: error, document: name }, 'identity provider document could not be loaded');
          throw new ProviderUnavailable(`${name}: not available`);
        },
      )
      .finally(() => {
        loading = null;
      });
    return loading;
  }

  return {
    async get() {
      if (cached === null || age() >= USABLE_MS) return read();
      if (age() >= FRESH_MS) read().catch(() => {});
      return cached.value;
    },
    async refresh() {
      if (age() < REFRESH_INTERVAL_MS) return false;
      await read();
      return true;
    },
  };
}
