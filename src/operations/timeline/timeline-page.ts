import type { ConnectionEvent } from '../../domain/connection-event.ts';
import type { Position } from '../../domain/cursor.ts';
import { allowsScope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import {
  type EntryPosition,
  entryPage,
  isNewer,
  newest,
  newestFirst,
  startPosition,
} from '../../store/contract/entry-page.ts';
import type { Page } from '../../store/contract/page.ts';
import { commandGroups, type TimelinePart, type TimelineRange } from '../../store/contract/timeline.ts';
import { connectionHistories } from '../devices/connection-history.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';
import { keyNames } from '../requested-with.ts';
import {
  type DeviceConnection,
  type FoundEntry,
  kindOfConnection,
  planIn,
  principalIn,
  type TimelineEntry,
  type TimelineKind,
  timelineEntryOf,
  timelineKinds,
} from './timeline-entry.ts';

// One page of a timeline: reads each source that the caller may read, and merges them.

export type TimelineServices = Pick<Services, 'sessions' | 'store'>;

export interface TimelineRequest {
  deviceIds: readonly Uuid[];
  kinds: readonly TimelineKind[];
  from: EpochMs | undefined;
  to: EpochMs | undefined;
  limit: number;
  after: Position | undefined;
}

/** A plan shows commands, and restricted keys see no plans. */
export const mayReadPlans = ({ scopes, restriction }: Caller): boolean =>
  restriction === undefined && allowsScope(scopes, 'read:plans');

const isReadable = (caller: Caller, kind: TimelineKind): boolean => {
  if (kind === 'presence' || kind === 'firmware') return true;
  return allowsScope(caller.scopes, 'read:commands') && (kind !== 'plan' || mayReadPlans(caller));
};

/** The kinds of the request that the caller may read, and those that the answer leaves out. */
export function kindsFor(caller: Caller, requested: readonly TimelineKind[] | undefined) {
  const kinds = timelineKinds.filter((kind) => requested === undefined || requested.includes(kind));
  return {
    kinds: kinds.filter((kind) => isReadable(caller, kind)),
    leftOut: kinds.filter((kind) => !isReadable(caller, kind)),
  };
}

export async function readTimeline(
  services: TimelineServices,
  caller: Caller,
  request: TimelineRequest,
): Promise<Page<TimelineEntry>> {
  const { deviceIds, kinds, from = 0, to, limit, after } = request;
  const { timeline } = services.store;
  const tenantId = tenantOf(caller);
  const range = { deviceIds, from, before: startPosition(to, after), limit };
  const groups = commandGroups.filter((group) => kinds.includes(group));
  const parts: TimelinePart<FoundEntry>[] = await Promise.all([
    readConnections(services, kinds, range),
    groups.length === 0 ? NOTHING : timeline.commands(tenantId, groups, range),
  ]);
  if (kinds.includes('confirmation')) {
    // A decision is later than its request: the longer ago the page ends, the more requests it examines.
    const end = sorted(parts)[limit]?.at ?? from;
    parts.push(await timeline.decisions(tenantId, { ...range, from: Math.max(from, end) }));
  }
  const edge = parts.reduce<EntryPosition | null>((found, part) => newest(found, part.edge), null);
  const page = entryPage(sorted(parts), edge, { limit, after });
  return { ...page, items: await entriesOf(services, caller, page.items) };
}

const NOTHING: TimelinePart<never> = { entries: [], edge: null };

const sorted = (parts: readonly TimelinePart<FoundEntry>[]): FoundEntry[] =>
  parts.flatMap(({ entries }) => entries).sort(newestFirst);

async function readConnections(
  services: TimelineServices,
  kinds: readonly TimelineKind[],
  { deviceIds, from, before }: TimelineRange,
): Promise<TimelinePart<DeviceConnection>> {
  if (!kinds.includes('presence') && !kinds.includes('firmware')) return NOTHING;
  const histories = await connectionHistories(services, deviceIds);
  const entries = [...histories].flatMap(([id, events]) => events.flatMap((event) => connectionAt(id, event)));
  const wanted = entries.filter(
    (one) => kinds.includes(kindOfConnection(one.connection)) && isNewer(before, one) && one.at >= from,
  );
  return { entries: wanted, edge: null };
}

/** Numbers of the kinds, so that events of one device and time have different positions. */
const numbers = { offline: 0, online: 1, firmware: 2 } as const;

function connectionAt(id: Uuid, event: ConnectionEvent): DeviceConnection[] {
  // A `hello` itself is not an event; another version of the firmware has an event.
  return event.event === 'hello' ? [] : [{ at: event.at, id, n: numbers[event.event], connection: event }];
}

async function entriesOf(
  services: Pick<Services, 'store'>,
  caller: Caller,
  found: readonly FoundEntry[],
): Promise<TimelineEntry[]> {
  const { inspection } = services.store;
  const tenantId = tenantOf(caller);
  const mayRead = mayReadPlans(caller);
  const commands = found.flatMap((one) => ('connection' in one ? [] : [one]));
  const deviceIds = found.map((one) => ('connection' in one ? one.id : (one.command.context.deviceId as Uuid)));
  const planIds = mayRead ? commands.flatMap((one) => planIn(one)?.id ?? []) : [];
  const [deviceNames, planNames, keys] = await Promise.all([
    inspection.names(tenantId, 'device', [...new Set(deviceIds)]),
    inspection.names(tenantId, 'plan', [...new Set(planIds)]),
    keyNames(services, commands.map(principalIn)),
  ]);
  return found.map((one) => timelineEntryOf(one, { deviceNames, planNames, keyNames: keys, mayReadPlans: mayRead }));
}
