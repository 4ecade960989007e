import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { type KindName, kindNames } from './kinds.ts';

/** What a client asked to hear. */
export interface Interest {
  kinds: ReadonlySet<KindName>;
  /** Null: all devices of the tenant. An id that names nothing of the tenant never matches. */
  devices: ReadonlySet<Uuid> | null;
  /** Begin with all current states. */
  snapshot: boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** From the query of `/ws/state`; unknown parameters are not looked at. */
export function readInterest(query: URLSearchParams): Outcome<Interest> {
  const kinds = new Set<KindName>();
  for (const name of (query.has('events') ? query.getAll('events') : ['state']).flatMap((list) => list.split(','))) {
    const kind = kindNames.find((known) => known === name);
    if (kind === undefined) return refuse('VALIDATION_FAILED', `events knows only ${kindNames.join(', ')}`);
    kinds.add(kind);
  }
  const devices = query.getAll('device_id');
  if (!devices.every((id) => UUID.test(id))) return refuse('VALIDATION_FAILED', 'device_id must be a UUID');
  const snapshot = query.get('snapshot') ?? '0';
  if (snapshot !== '0' && snapshot !== '1') return refuse('VALIDATION_FAILED', 'snapshot must be 0 or 1');
  return done({
    kinds,
    devices: devices.length === 0 ? null : new Set(devices.map((id) => id.toLowerCase())),
    snapshot: snapshot === '1',
  });
}

/** The same text for clients that asked for the same, snapshot apart: they get the same bytes. */
export const audienceKey = ({ kinds, devices }: Interest): string =>
  `${[...kinds].sort().join()} ${devices === null ? '*' : [...devices].sort().join()}`;
