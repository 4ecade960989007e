import { useEffect, useRef, useSyncExternalStore } from 'react';
import { openStream, type Stream, type StreamParts, type StreamState } from './stream.ts';

// The streams that are open now, so that the frame of the page can say how they are.

const states = new Map<object, StreamState>();
const streams = new Map<object, Stream>();
const listeners = new Set<() => void>();
let worst: StreamState | null = null;

const rank = ({ is }: StreamState): number => ['live', 'connecting', 'lost', 'refused'].indexOf(is);

function notifyListeners(): void {
  worst = [...states.values()].reduce<StreamState | null>(
    (found, state) => (found === null || rank(state) > rank(found) ? state : found),
    null,
  );
  for (const hear of listeners) hear();
}

/** How the page hears of changes: null where it has no stream open. */
export const useConnectionState = (): StreamState | null =>
  useSyncExternalStore(
    (hear) => {
      listeners.add(hear);
      return () => listeners.delete(hear);
    },
    () => worst,
  );

export const retryAllStreams = (): void => {
  for (const stream of streams.values()) stream.retry();
};

export interface StreamOptions extends Pick<StreamParts, 'path' | 'query' | 'onMessage'> {
  /** It hears from now on, for the first time or again: what happened before has to be asked for. */
  onOpen?(): void;
  enabled?: boolean;
}

/** Keeps a stream open as long as the component is there. Another path or query is another stream. */
export function useStream({ path, query = {}, onMessage, onOpen, enabled = true }: StreamOptions): void {
  const latest = useRef({ hear: onMessage, missed: onOpen });
  latest.current = { hear: onMessage, missed: onOpen };
  const asked = JSON.stringify(query);
  useEffect(() => {
    if (!enabled) return;
    const me = {};
    const stream = openStream({
      path,
      query: JSON.parse(asked),
      onMessage: (message) => latest.current.hear(message),
      onOpen: () => latest.current.missed?.(),
      onStateChange(state) {
        states.set(me, state);
        notifyListeners();
      },
    });
    streams.set(me, stream);
    return () => {
      stream.close();
      streams.delete(me);
      states.delete(me);
      notifyListeners();
    };
  }, [path, asked, enabled]);
}
