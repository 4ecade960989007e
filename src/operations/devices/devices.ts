import { z } from 'zod';
import { MAX_TAGS, type TagChange, tagList } from '../../domain/device-tags.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import { metadata } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceFilter } from '../../store/contract.ts';
import { resolvePlacement, withPlacementLock } from '../homes/placement.ts';
import { cursorAfter, cursorsIn, displayName, idOf, nextCursor, paging, startOf } from '../inputs.ts';
import { reachedDeviceIds } from '../key-reach.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { deviceEntry, deviceEntryOf, deviceRecord, deviceRecordOf, findDevice } from './device-view.ts';
import { tagFilter } from './tags.ts';

const deviceBody = z.object({ device: deviceRecord });

const searchText = z.string().trim().min(1).max(100);

const filterId = uuid.optional();
const filterFields = z.strictObject({
  home_id: filterId.meta({ description: 'Only devices of this home' }),
  room_id: filterId.meta({ description: 'Only devices in this room' }),
  device_type: z.string().min(1).max(64).optional().meta({ description: 'Only devices of this type' }),
  online: z.boolean().optional().meta({ description: 'Only online devices, or only offline ones' }),
  revoked: z.boolean().optional().meta({ description: 'Only revoked devices, or only others' }),
  tag: tagFilter.optional(),
  q: searchText.optional().meta({
    description: 'Only devices with this text in the name, the type or a tag, or at the start of the ID, in any case',
  }),
});

export const listDevices = operation({
  name: 'listDevices',
  summary: "List the tenant's devices, including revoked ones, newest first",
  input: filterFields.extend(paging),
  output: z.object({
    devices: z.array(deviceEntry),
    count: z.int().meta({
      description: 'Number of all devices of the tenant that the credential may see, regardless of filters',
    }),
    next_cursor: nextCursor,
  }),
  role: 'user',
  scope: 'read:devices',
  restrictedKeys: 'devices',
  changes: false,
  needs: ['sessions', 'store'],
  async run({ store, sessions }, { input, caller }) {
    const { limit, cursor, ...filters } = input;
    const tenantId = tenantOf(caller);
    const listing = { route: 'devices', filters };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const ids = await reachedDeviceIds(store, caller);
    const filter = { ...filterOf(filters), ...(ids !== undefined && { ids }) };
    const [page, count] = await Promise.all([
      store.devices.list(tenantId, filter, limit, start.value),
      ids === undefined ? store.devices.count(tenantId) : ids.length,
    ]);
    const devices = page.items.map((row) => deviceEntryOf(row, sessions));
    return done({
      body: { devices, count, next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

function filterOf({
  home_id,
  room_id,
  device_type,
  online,
  revoked,
  tag,
  q,
}: z.infer<typeof filterFields>): DeviceFilter {
  return {
    ...(home_id !== undefined && { homeId: home_id }),
    ...(room_id !== undefined && { roomId: room_id }),
    ...(device_type !== undefined && { deviceType: device_type }),
    ...(online !== undefined && { online }),
    ...(revoked !== undefined && { revoked }),
    ...(tag !== undefined && { tags: tag }),
    ...(q !== undefined && { text: q }),
  };
}

export const getDevice = operation({
  name: 'getDevice',
  summary: 'Show a device with its reported state',
  input: z.strictObject({ id: idOf('device') }),
  output: deviceBody,
  role: 'user',
  scope: 'read:devices',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'sessions', 'store'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    return found.ok ? done({ body: { device: await deviceRecordOf(services, found.value) } }) : found;
  },
});

const patchFields = z
  .strictObject({
    id: idOf('device'),
    name: displayName.nullable().optional(),
    home_id: idOf('home').optional(),
    room_id: idOf('room').nullable().optional(),
    metadata: metadata.optional(),
    tags: tagList.optional().meta({ description: 'All tags of the device from now on' }),
    add_tags: tagList.optional().meta({ description: `Tags to add; the device has ${MAX_TAGS} at most` }),
    remove_tags: tagList.optional().meta({ description: 'Tags to remove, before tags are added' }),
  })
  .refine(({ tags, add_tags, remove_tags }) => tags === undefined || (add_tags ?? remove_tags) === undefined, {
    path: ['tags'],
    message: 'cannot be combined with add_tags and remove_tags',
  });

export const patchDevice = operation({
  name: 'patchDevice',
  summary: 'Rename a device, move it, replace its metadata, or change its tags',
  input: patchFields,
  output: deviceBody,
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED'],
  example: { input: { name: 'Desk lamp', metadata: { floor: 2 }, add_tags: ['outdoor'] } },
  needs: ['actors', 'clock', 'locks', 'sessions', 'store'],
  run(services, call) {
    // Moves of one device are serialized; otherwise it could end up in a room of another home.
    return withPlacementLock(services, tenantOf(call.caller), () =>
      services.locks.exclusive(`device:${call.input.id}`, () => patch(services, call)),
    );
  },
});

async function patch(
  services: Pick<Services, 'actors' | 'clock' | 'sessions' | 'store'>,
  { input, caller }: Call<z.infer<typeof patchFields>>,
): Promise<Outcome<Answer<z.infer<typeof deviceBody>>>> {
  const found = await findDevice(services, caller, input.id);
  if (!found.ok) return found;
  const placement = await resolvePlacement(services, tenantOf(caller), input, found.value.snapshot.context.fixed);
  if (!placement.ok) return placement;
  const tags = tagChangeOf(input);
  const event: DeviceEvent = {
    type: 'patch',
    at: services.clock.now(),
    by: caller.principal,
    changes: {
      ...placement.value,
      ...(input.name !== undefined && { name: input.name }),
      ...(input.metadata !== undefined && { metadata: input.metadata }),
    },
    ...(tags !== undefined && { tags }),
  };
  if (Object.keys(event.changes).length > 0 || event.tags !== undefined) {
    const reply = await sendToActor(services, found.value.ref, event);
    if (!reply.ok) return reply;
  }
  const patched = await findDevice(services, caller, input.id);
  return patched.ok ? done({ body: { device: await deviceRecordOf(services, patched.value) } }) : patched;
}

/** Tags are added and removed by the device's actor, so that of concurrent changes none is lost. */
function tagChangeOf({ tags, add_tags, remove_tags }: z.infer<typeof patchFields>): TagChange | undefined {
  if (tags !== undefined) return { set: tags };
  if (add_tags === undefined && remove_tags === undefined) return undefined;
  return { add: add_tags ?? [], remove: remove_tags ?? [] };
}

export const deleteDevice = operation({
  name: 'deleteDevice',
  summary: 'Delete a revoked device; its journal is kept',
  input: z.strictObject({ id: idOf('device') }),
  output: z.null(),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  needs: ['actors', 'clock', 'manifests'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const event: DeviceEvent = { type: 'delete', at: services.clock.now(), by: caller.principal };
    const reply = await sendToActor(services, found.value.ref, event);
    if (!reply.ok) return reply;
    services.manifests.delete(input.id);
    return done({ body: null });
  },
});
