import type { Log } from '../domain/log.ts';
import type { Flags } from '../services/flags.ts';

const REFRESH_MS = 10_000;

/** Bounds how stale the flags in memory can be. Whoever stops clears the timer. */
export function startFlagRefresh(flags: Flags, log: Log, everyMs = REFRESH_MS): NodeJS.Timeout {
  let refreshing = false;
  const refresh = () => {
    if (refreshing) return;
    refreshing = true;
    flags
      .refresh()
      .catch((error) => log.warn({ err: error }, 'flags were not read again; the last known ones stand'))
      .finally(() => {
        refreshing = false;
      });
  };
  return setInterval(refresh, everyMs).unref();
}
