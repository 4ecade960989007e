import { useEffect, useRef, useSyncExternalStore } from 'react';
import { Stream, type StreamParts, type StreamState } from './stream.ts';

// Registry of the open streams, for the connection status of the page.

const states = new Map<object, StreamState>();
const streams = new Map<object, Stream>();
const listeners = new Set<() => void>();
let worst: StreamState | null = null;

const severity = ({ status }: StreamState): number => ['live', 'connecting', 'lost', 'refused'].indexOf(status);

function notifyListeners(): void {
  worst = [...states.values()].reduce<StreamState | null>(
    (found, state) => (found === null || severity(state) > severity(found) ? state : found),
    null,
  );
  for (const listener of listeners) listener();
}

/** The worst state of the open streams; null without a stream. */
export const useConnectionState = (): StreamState | null =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => worst,
  );

export const retryAllStreams = (): void => {
  for (const stream of streams.values()) stream.retry();
};

export interface StreamOptions extends Pick<StreamParts, 'path' | 'query' | 'onMessage'> {
  /** Called whenever the stream becomes live; earlier changes have to be fetched. */
  onOpen?(): void;
  enabled?: boolean;
}

/** Keeps a stream open while the component is mounted. Another path or query opens another stream. */
export function useStream({ path, query = {}, onMessage, onOpen, enabled = true }: StreamOptions): void {
  const latest = useRef({ onMessage, onOpen });
  latest.current = { onMessage, onOpen };
  const queryText = JSON.stringify(query);
  useEffect(() => {
    if (!enabled) return;
    const key = {};
    const stream = new Stream({
      path,
      query: JSON.parse(queryText),
      onMessage: (message) => latest.current.onMessage(message),
      onOpen: () => latest.current.onOpen?.(),
      onStateChange(state) {
        states.set(key, state);
        notifyListeners();
      },
    });
    streams.set(key, stream);
    return () => {
      stream.close();
      streams.delete(key);
      states.delete(key);
      notifyListeners();
    };
  }, [path, queryText, enabled]);
}
