import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Services } from '../../operations/operation.ts';
import type { AccessRequirement, Subscription } from '../shared/live/subscription.ts';
import { updateKindNames, updateKinds } from '../shared/live/update-kinds.ts';
import { Snapshots } from './snapshots.ts';
import type { UpdateStream } from './update-stream.ts';

/** `/ws/state` (contract §6). */
export function stateStream(services: {
  actors: Pick<Services['actors'], 'subscribe'>;
  store: { devices: Pick<Services['store']['devices'], 'states'> };
}): UpdateStream {
  const snapshots = new Snapshots((tenantId, ids) => services.store.devices.states(tenantId, ids));
  return {
    path: '/ws/state',
    parseQuery,
    sizes: () => snapshots.sizes(),
    subscribe(publish) {
      const unsubscribes = Object.values(updateKinds).map((kind) => kind.subscribe(services.actors, publish));
      return () => {
        for (const unsubscribe of unsubscribes) unsubscribe();
      };
    },
    snapshot: (tenantId, { snapshot, kinds, devices }) =>
      snapshot && kinds.has('state') ? snapshots.take(tenantId, devices) : null,
  };
}

function parseQuery(query: URLSearchParams): Outcome<Subscription> {
  const kinds = new Map<string, AccessRequirement>();
  for (const name of (query.has('events') ? query.getAll('events') : ['state']).flatMap((list) => list.split(','))) {
    const kind = updateKindNames.find((known) => known === name);
    if (kind === undefined)
      return refuse('VALIDATION_FAILED', `events must be one or more of ${updateKindNames.join(', ')}`);
    kinds.set(kind, updateKinds[kind]);
  }
  const devices = query.getAll('device_id');
  if (!devices.every(isUuid)) return refuse('VALIDATION_FAILED', 'device_id must be a UUID');
  const snapshot = query.get('snapshot') ?? '0';
  if (snapshot !== '0' && snapshot !== '1') return refuse('VALIDATION_FAILED', 'snapshot must be 0 or 1');
  return done({
    kinds,
    devices: devices.length === 0 ? null : new Set(devices.map((id) => id.toLowerCase())),
    snapshot: snapshot === '1',
    tenantId: null,
  });
}
