import type { Log } from '../domain/log.ts';
import type { Flags } from '../services/flags.ts';

const REFRESH_MS = 10_000;

/** Refreshes the flags periodically, which bounds how stale they can be. The caller clears the timer. */
export function startFlagRefresh(flags: Flags, log: Log, everyMs = REFRESH_MS): NodeJS.Timeout {
  let refreshing = false;
  const refresh = () => {
    if (refreshing) return;
    refreshing = true;
    flags
      .refresh()
      .catch((error) => log.warn({ err: error }, 'flag refresh failed; keeping the last known flags'))
      .finally(() => {
        refreshing = false;
      });
  };
  return setInterval(refresh, everyMs).unref();
}
