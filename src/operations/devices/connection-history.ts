import { type ConnectionEvent, mergeConnectionEvents } from '../../domain/connection-event.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../operation.ts';

/** The connection histories of devices, newest first, with the entries that are not stored yet. */
export async function connectionHistories(
  { sessions, store }: Pick<Services, 'sessions' | 'store'>,
  ids: readonly Uuid[],
): Promise<ReadonlyMap<Uuid, readonly ConnectionEvent[]>> {
  // Before the query: a flush in between moves entries from memory to the store, and then both have them.
  const latest = ids.map((id) => [id, sessions.connections(id)] as const);
  const stored = await store.devices.connections(ids);
  return new Map(latest.map(([id, events]) => [id, mergeConnectionEvents(events, stored.get(id) ?? [])]));
}
