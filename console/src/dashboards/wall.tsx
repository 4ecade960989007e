import { useEffect, useRef, useState } from 'react';
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
 * A dashboard on an unattended screen, without navigation. Without a connection it shows how old its values are. It ends with the
 * session, and shows the time of that in its last hour.
 */
export function Wall({ name, tiles, href, readAt, hasFailed }: WallProps) {
  const { may } = useSession();
  const since = useOutdatedTime(hasFailed ? readAt : null);
  useWakeLock();
  return (
    <div className="wall-board">
      <header className="wall-head">
        <h1>{name}</h1>
        <p className="quiet wall-links">
          <WallClock />
          <FullScreen />
          <Link href={href}>Leave wall view</Link>
        </p>
      </header>
      {since !== null && (
        <Note tone="warn">
          <strong>No connection since {clockText(since)}.</strong> The values are from then, and are updated when the
          service responds. <Attempt />
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

/** When the next attempt to connect is made. */
function Attempt() {
  const connection = useConnectionState();
  const now = useNow();
  if (connection?.status === 'refused') return <>Live updates are off: {connection.reason}</>;
  if (connection?.status !== 'lost') return null;
  const left = Math.ceil((connection.retryAt - now) / 1000);
  return <>{left > 0 ? `Next attempt in ${left} s.` : 'Connecting …'}</>;
}

/** Whether a key is text, or belongs to a dialog. */
const isTyped = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest('input, textarea, select, dialog') !== null;

/** A button, and the key `f`, for the whole screen; nothing where the browser does not offer it, as on phones. */
function FullScreen() {
  const [isFull, setFull] = useState(document.fullscreenElement !== null);
  useEffect(() => {
    const onChange = (): void => setFull(document.fullscreenElement !== null);
    const onKey = ({ key, target, ctrlKey, metaKey, altKey, repeat }: KeyboardEvent): void => {
      if (key === 'f' && !(ctrlKey || metaKey || altKey || repeat) && !isTyped(target)) toggleFullScreen();
    };
    document.addEventListener('fullscreenchange', onChange);
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('fullscreenchange', onChange);
      document.removeEventListener('keydown', onKey);
    };
  }, []);
  if (!document.fullscreenEnabled) return null;
  return (
    <button type="button" className="button" aria-keyshortcuts="f" title="Key: f" onClick={toggleFullScreen}>
      {isFull ? 'Leave full screen' : 'Full screen'}
    </button>
  );
}

function toggleFullScreen(): void {
  if (!document.fullscreenEnabled) return;
  const change =
    document.fullscreenElement === null ? document.documentElement.requestFullscreen() : document.exitFullscreen();
  // Refused for example without a gesture of the user: the button stays as it is.
  change.catch(() => {});
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
