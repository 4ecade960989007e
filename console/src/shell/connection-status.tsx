import { retryAllStreams, useConnectionState } from '../live/use-stream.ts';
import { useNow } from '../ui/clock.ts';
import { Note, Pill } from '../ui/feedback.tsx';
import { ago } from '../ui/time.tsx';

/** In the menu: how this page hears of what happens. */
export function ConnectionStatus() {
  const connection = useConnectionState();
  return (
    <p className="connection" role="status">
      {connection === null ? (
        <Pill tone="quiet">Refreshed at times</Pill>
      ) : connection.is === 'live' ? (
        <Pill tone="good">Live</Pill>
      ) : connection.is === 'connecting' ? (
        <Pill tone="info">Connecting</Pill>
      ) : connection.is === 'lost' ? (
        <Pill tone="warn">Reconnecting</Pill>
      ) : (
        <Pill tone="bad">Not live</Pill>
      )}
    </p>
  );
}

/** Above the page, while what it shows may be old. */
export function ConnectionBanner() {
  const connection = useConnectionState();
  const now = useNow();
  if (connection === null || connection.is === 'live' || connection.is === 'connecting') return null;
  if (connection.is === 'refused') {
    return <Note tone="bad">Nothing is told live: {connection.why} What you see is refreshed when you load it.</Note>;
  }
  const left = Math.max(1, Math.ceil((connection.retryAt - Date.now()) / 1000));
  return (
    <Note tone="warn">
      <div className="interruption">
        <p>
          <strong>The connection was lost {ago(connection.since, now)}.</strong> What you see may be old; it is tried
          again by itself{connection.retryAt > Date.now() ? ` in ${left} s` : ' now'}.
        </p>
        <button type="button" className="button" onClick={retryAllStreams}>
          Try now
        </button>
      </div>
    </Note>
  );
}
