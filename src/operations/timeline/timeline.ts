import { z } from 'zod';
import type { Listing } from '../../domain/cursor.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { findDevice } from '../devices/device-view.ts';
import {
  cursorAfter,
  cursorsIn,
  idOf,
  listCount,
  nextCursor,
  notFound,
  paging,
  startOf,
  timeInput,
} from '../inputs.ts';
import { onlyReached, reachedPlaces, seesHome, seesRoom } from '../key-reach.ts';
import { type Answer, type Caller, operation, tenantOf } from '../operation.ts';
import { timelineEntry, timelineKinds } from './timeline-entry.ts';
import { kindsFor, readTimeline, type TimelineServices } from './timeline-page.ts';

// The events of a device, or of the devices of a room or a home.

/** A place may have any number of devices; each costs a read of an index. */
export const MAX_TIMELINE_DEVICES = 500;

const filterFields = z.strictObject({
  kind: z
    .array(z.enum(timelineKinds))
    .min(1)
    .max(timelineKinds.length)
    .optional()
    .meta({ description: 'Only entries of these kinds', examples: [['command', 'confirmation']] }),
  from: timeInput.optional().meta({ description: 'At or after this time' }),
  to: timeInput.optional().meta({ description: 'Before this time' }),
  ...paging,
});
type Filters = z.infer<typeof filterFields>;

const output = z.object({
  entries: z.array(timelineEntry),
  left_out: z.array(z.enum(timelineKinds)).meta({
    description:
      'Kinds that were requested and that the credential may not read: without `read:commands` all but `presence` and `firmware`; without `read:plans`, and for restricted keys, `plan`',
  }),
  devices_left_out: z.int().meta({
    description: `Devices of a place with over ${MAX_TIMELINE_DEVICES}: the oldest ones are left out`,
  }),
  count: listCount,
  next_cursor: nextCursor,
});
type Body = z.infer<typeof output>;

const reading = { output, role: 'user', scope: 'read:devices', restrictedKeys: 'devices', changes: false } as const;

const DEVICE_ID = '0195d9a2-7f00-7000-8000-000000000001';
const nothing = { by: null, credential: null, command_id: null, plan_id: null, action: null, params: null };
const example = {
  output: {
    entries: [
      {
        ...nothing,
        ...{ at: '2026-03-01T12:00:04.000Z', kind: 'confirmation', text: 'Unlock was confirmed' },
        ...{ device_id: DEVICE_ID, device_name: 'Front door', by: '0195d9a2-7f00-7000-8000-000000000002' },
        ...{ credential: { kind: 'person' }, command_id: '0195d9a2-7f00-7000-8000-000000000003' },
        ...{ action: 'unlock', params: {}, status: 'succeeded', decision: 'confirmed', code: null },
      },
      {
        ...nothing,
        ...{ at: '2026-03-01T11:58:00.000Z', kind: 'presence', text: 'Came online', device_id: DEVICE_ID },
        ...{ device_name: 'Front door', status: null, decision: null, code: null },
      },
    ],
    left_out: [],
    devices_left_out: 0,
    count: 2,
    next_cursor: null,
  } satisfies Body,
};

export const getDeviceTimeline = operation({
  ...reading,
  name: 'getDeviceTimeline',
  summary:
    'List what happened to a device, newest first: presence, commands, plans, confirmations, refusals and firmware. A page may have fewer entries than its limit and still a next page',
  input: filterFields.extend({ id: idOf('device') }),
  refuses: ['NOT_FOUND'],
  example,
  needs: ['actors', 'sessions', 'store'],
  async run(services, { input: { id, ...filters }, caller }) {
    const device = await findDevice(services, caller, id);
    return device.ok ? answer(services, caller, { place: { device_id: id }, deviceIds: [id], filters }) : device;
  },
});

export const getHomeTimeline = operation({
  ...reading,
  alsoScope: 'read:homes',
  name: 'getHomeTimeline',
  summary: 'List what happened to the devices that are in a home now, newest first, as in the timeline of a device',
  input: filterFields.extend({ homeId: idOf('home') }),
  refuses: ['NOT_FOUND'],
  example,
  needs: ['sessions', 'store'],
  async run(services, { input: { homeId, ...filters }, caller }) {
    const { records, devices } = services.store;
    const tenantId = tenantOf(caller);
    const home = await records.home(tenantId, homeId);
    if (home === null || !seesHome(await reachedPlaces(services.store, caller), homeId)) return notFound('home');
    const deviceIds = await devices.placedIn(tenantId, { homeId });
    return answer(services, caller, { place: { home_id: homeId }, deviceIds, filters });
  },
});

export const getRoomTimeline = operation({
  ...reading,
  alsoScope: 'read:homes',
  name: 'getRoomTimeline',
  summary: 'List what happened to the devices that are in a room now, newest first, as in the timeline of a device',
  input: filterFields.extend({ homeId: idOf('home'), roomId: idOf('room') }),
  refuses: ['NOT_FOUND'],
  example,
  needs: ['sessions', 'store'],
  async run(services, { input: { homeId, roomId, ...filters }, caller }) {
    const { records, devices } = services.store;
    const tenantId = tenantOf(caller);
    const room = await records.room(tenantId, roomId);
    if (room?.homeId !== homeId || !seesRoom(await reachedPlaces(services.store, caller), room))
      return notFound('room');
    const deviceIds = await devices.placedIn(tenantId, { roomId });
    return answer(services, caller, { place: { room_id: roomId }, deviceIds, filters });
  },
});

async function answer(
  services: TimelineServices,
  caller: Caller,
  about: { place: Readonly<Record<string, Uuid>>; deviceIds: readonly Uuid[]; filters: Filters },
): Promise<Outcome<Answer<Body>>> {
  const { place, deviceIds, filters } = about;
  const { kind, from, to, limit, cursor } = filters;
  const { kinds, leftOut } = kindsFor(caller, kind);
  const listing: Listing = { route: 'timeline', filters: { ...place, kind: kinds, from, to }, ids: 'entry' };
  const start = startOf(listing, cursor);
  if (!start.ok) return start;
  const reached = await onlyReached(services.store, caller, deviceIds);
  // Ids are ordered by registration.
  const newestIds = reached.sort().reverse().slice(0, MAX_TIMELINE_DEVICES);
  const range = { from: timeOf(from), to: timeOf(to), limit, after: start.value };
  const page = await readTimeline(services, caller, { deviceIds: newestIds, kinds, ...range });
  return done({
    body: {
      entries: page.items,
      left_out: leftOut,
      devices_left_out: reached.length - newestIds.length,
      count: await page.count(),
      next_cursor: cursorAfter(listing, page),
    },
    cursors: cursorsIn(listing, page),
  });
}

const timeOf = (text: string | undefined): number | undefined => (text === undefined ? undefined : Date.parse(text));
