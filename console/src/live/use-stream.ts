import { useEffect, useRef, useSyncExternalStore } from 'react';
import { subscribeToSignOut } from '../api/client.ts';
import { scopeFamilies } from './coverage.ts';
import { SharedStream, type StreamSubscriber } from './shared-stream.ts';
import { Stream, type StreamParts, type StreamQuery, type StreamState } from './stream.ts';

// Registry of the open streams: the shared ones of the page, and the connection status.

const states = new Map<object, StreamState>();
const streams = new Map<object, { retry(): void }>();
const listeners = new Set<() => void>();
let worst: StreamState | null = null;

const severity = ({ status }: StreamState): number => ['live', 'connecting', 'lost', 'refused'].indexOf(status);

function setState(key: object, state: StreamState | null): void {
  if (state === null) states.delete(key);
  else states.set(key, state);
  worst = [...states.values()].reduce<StreamState | null>(
    (found, one) => (found === null || severity(one) > severity(found) ? one : found),
    null,
  );
  for (const listener of listeners) listener();
}

const listen = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** The worst state of the open streams; null without a stream. */
export const useConnectionState = (): StreamState | null => useSyncExternalStore(listen, () => worst);

export const retryAllStreams = (): void => {
  for (const stream of streams.values()) stream.retry();
};

/** Streams to `/ws/state` by what their subscribers have in common. */
const shared = new Map<string, SharedStream>();
/**
 * After a stream was refused: a credential with scopes may read only some of what the subscribers of the page need, so those that
 * need the same scopes share one.
 */
let isSplit = false;

// The next user of the page receives nothing of the session that is over, and may have other scopes.
subscribeToSignOut(() => {
  isSplit = false;
  for (const stream of shared.values()) stream.reset();
});

/** Subscribers that need all devices do not share a stream with those of some: it would be flooded. */
function sharedStream({ coverage }: StreamSubscriber): SharedStream {
  const families = scopeFamilies(coverage.kinds);
  const key = [coverage.deviceIds === null ? 'all' : 'some', ...(isSplit ? families : [])].join(' ');
  const known = shared.get(key);
  if (known !== undefined) return known;
  const stream: SharedStream = new SharedStream(
    ({ coverage: wanted, ...parts }) =>
      new Stream({
        ...parts,
        path: '/ws/state',
        query() {
          const { kinds, deviceIds } = wanted();
          return { events: kinds.join(','), ...(deviceIds !== null && { device_id: deviceIds }) };
        },
      }),
    (state) => {
      setState(stream, state);
      if (state?.status !== 'refused' || isSplit) return;
      isSplit = true;
      for (const listener of listeners) listener();
    },
  );
  shared.set(key, stream);
  streams.set(stream, stream);
  return stream;
}

export interface StreamOptions extends Pick<StreamParts, 'path'> {
  query?: StreamQuery;
  onMessage(message: unknown): void;
  /** Called whenever the stream becomes live; earlier changes have to be fetched. */
  onOpen?(): void;
  enabled?: boolean;
}

/** Receives updates while the component is mounted. Those of `/ws/state` share the connections of the page. */
export function useStream({ path, query = {}, onMessage, onOpen, enabled = true }: StreamOptions): void {
  const latest = useRef({ onMessage, onOpen });
  latest.current = { onMessage, onOpen };
  const queryText = JSON.stringify(query);
  const split = useSyncExternalStore(listen, () => isSplit);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other streams are shared after the split
  useEffect(() => {
    if (!enabled) return;
    const given = JSON.parse(queryText) as StreamQuery;
    const callbacks = {
      onMessage: (message: unknown) => latest.current.onMessage(message),
      onOpen: () => latest.current.onOpen?.(),
    };
    return path === '/ws/state' ? subscribe(given, callbacks) : openOwn(path, given, callbacks);
  }, [path, queryText, enabled, split]);
}

type Callbacks = Pick<StreamSubscriber, 'onMessage' | 'onOpen'>;

function subscribe({ events = 'state', device_id: devices }: StreamQuery, callbacks: Callbacks): () => void {
  const kinds = [events].flat().flatMap((list) => list.split(','));
  const subscriber = { ...callbacks, coverage: { kinds, deviceIds: devices === undefined ? null : [devices].flat() } };
  return sharedStream(subscriber).subscribe(subscriber);
}

function openOwn(path: StreamParts['path'], query: StreamQuery, callbacks: Callbacks): () => void {
  const key = {};
  const stream = new Stream({
    ...{ path, ...callbacks, query: () => query },
    onStateChange: (state) => setState(key, state),
  });
  streams.set(key, stream);
  return () => {
    stream.close();
    streams.delete(key);
    setState(key, null);
  };
}
