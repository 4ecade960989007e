import { useEffect, useRef } from 'react';
import { Link } from 'wouter';
import type { listSessions } from '../../../src/operations/identity/sessions.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useConnectionState } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { Note } from '../ui/feedback.tsx';
import { Board } from './board.tsx';
import type { Tile } from './dashboard-types.ts';
import { OutdatedProvider } from './freshness.ts';

const SESSIONS_MS = 300_000;
/** How long before its end the session is announced. */
const ANNOUNCED_MS = 3_600_000;
const clockText = (at: number): string =>
  new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });

interface WallProps {
  name: string;
  tiles: readonly Tile[];
  /** Of the page without the wall view. */
  href: string;
  /** When the dashboard itself could last be read, in epoch milliseconds. */
  readAt: number;
  /** The last attempt to read it failed. */
  hasFailed: boolean;
}

/**
 * A dashboard on an unattended screen: without navigation, and without outdated values. It ends with the session, and shows
 * the time of that in its last hour.
 */
export function Wall({ name, tiles, href, readAt, hasFailed }: WallProps) {
  const { may } = useSession();
  const since = useOutdatedTime(hasFailed ? readAt : null);
  useWakeLock();
  return (
    <div className="wall-board">
      <header className="wall-head">
        <h1>{name}</h1>
        <p className="quiet">
          <WallClock /> · <Link href={href}>Leave wall view</Link>
        </p>
      </header>
      {since !== null && (
        <Note tone="warn">
          <strong>No connection since {clockText(since)}.</strong> Values are shown again when the service responds.
        </Note>
      )}
      <SessionEnd />
      <OutdatedProvider value={since}>
        <Board tiles={tiles} isLive={may('user')} />
      </OutdatedProvider>
    </div>
  );
}

/** The time at which the connection was lost; null while it is open. */
function useOutdatedTime(readAt: number | null): number | null {
  const connection = useConnectionState();
  const now = useNow();
  const lostAt = useRef<number | null>(null);
  const isLost = connection?.status === 'lost' || connection?.status === 'refused' || readAt !== null;
  if (!isLost && connection?.status !== 'connecting') lostAt.current = null;
  else if (isLost) lostAt.current ??= connection?.status === 'lost' ? connection.since : (readAt ?? now);
  return lostAt.current;
}

const WallClock = () => <time>{clockText(useNow())}</time>;

/** The end of the session, shown during its last hour. */
function SessionEnd() {
  const { data } = useGet<ResponseBody<typeof listSessions>>('/v1/auth/sessions?limit=200', {
    refetchIntervalMs: SESSIONS_MS,
  });
  const now = useNow();
  const current = data?.sessions.find((session) => session.current);
  if (current === undefined) return null;
  const endsAt = Date.parse(current.expires_at);
  if (endsAt - now > ANNOUNCED_MS) return null;
  return <Note tone="warn">The session ends at {clockText(endsAt)}. Sign in again before, to keep this view.</Note>;
}

/** Keeps the screen on, where the browser supports it. The lock ends with the visibility of the page. */
function useWakeLock(): void {
  useEffect(() => {
    let lock: WakeLockSentinel | null = null;
    let isOver = false;
    const acquire = async (): Promise<void> => {
      if (document.visibilityState !== 'visible' || !('wakeLock' in navigator)) return;
      // Refused for example while the battery is low.
      const acquired = await navigator.wakeLock.request('screen').catch(() => null);
      if (isOver) await acquired?.release();
      else lock = acquired;
    };
    const onChange = (): void => void acquire();
    document.addEventListener('visibilitychange', onChange);
    onChange();
    return () => {
      isOver = true;
      document.removeEventListener('visibilitychange', onChange);
      void lock?.release();
    };
  }, []);
}
