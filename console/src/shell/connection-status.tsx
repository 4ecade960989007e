import type { StreamState } from '../live/stream.ts';
import { retryAllStreams, useConnectionState } from '../live/use-stream.ts';
import { useNow } from '../ui/clock.ts';
import { Note, Pill } from '../ui/feedback.tsx';
import { ago } from '../ui/time.tsx';
import type { Tone } from '../ui/tone.ts';

const pills: Readonly<Record<StreamState['status'], { tone: Tone; text: string }>> = {
  live: { tone: 'good', text: 'Live' },
  connecting: { tone: 'info', text: 'Connecting' },
  lost: { tone: 'warn', text: 'Reconnecting' },
  refused: { tone: 'bad', text: 'Not live' },
};

/** Connection status in the menu. */
export function ConnectionStatus() {
  const connection = useConnectionState();
  return (
    <p className="connection" role="status">
      {connection === null ? (
        <Pill tone="quiet">Updates periodically</Pill>
      ) : (
        <Pill tone={pills[connection.status].tone}>{pills[connection.status].text}</Pill>
      )}
    </p>
  );
}

/** Banner above the page while its data may be outdated. */
export function ConnectionBanner() {
  const connection = useConnectionState();
  const now = useNow();
  if (connection === null || connection.status === 'live' || connection.status === 'connecting') return null;
  if (connection.status === 'refused') {
    return <Note tone="bad">Live updates are off: {connection.reason} Reload the page to see changes.</Note>;
  }
  const left = Math.max(1, Math.ceil((connection.retryAt - Date.now()) / 1000));
  return (
    <Note tone="warn">
      <div className="interruption">
        <p>
          <strong>Connection lost {ago(connection.since, now)}.</strong> The data may be outdated. Reconnecting
          {connection.retryAt > Date.now() ? ` in ${left} s` : ' now'}.
        </p>
        <button type="button" className="button" onClick={retryAllStreams}>
          Reconnect now
        </button>
      </div>
    </Note>
  );
}
