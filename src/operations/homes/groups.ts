import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { done, type Outcome } from '../../domain/refusals.ts';
import { slugFrom } from '../../domain/slug.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Group } from '../../store/contract.ts';
import {
  cursorAfter,
  cursorsIn,
  displayName,
  idOf,
  listCount,
  nextCursor,
  notFound,
  paging,
  slug,
  startOf,
} from '../inputs.ts';
import { onlyReached, seenGroups } from '../key-reach.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { quotaRefusal, withinQuota } from '../quota-checks.ts';

/** The maximum number of targets of one command (contract §5). */
const MAX_DEVICES = 500;

const group = z
  .object({
    slug: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    device_ids: z.array(uuid),
  })
  .meta({ id: 'Group' });
const description = z.string().max(500);
const deviceIds = z.array(z.string()).max(MAX_DEVICES).meta({ description: 'Devices of the tenant' });

/** Groups as the caller sees them: with the devices that its key reaches. */
async function groupBodies(
  store: Services['store'],
  caller: Caller,
  groups: readonly Group[],
): Promise<z.infer<typeof group>[]> {
  const all = groups.flatMap(({ deviceIds }) => deviceIds);
  const reached = caller.restriction === undefined ? null : new Set(await onlyReached(store, caller, all));
  return groups.map(({ slug, name, description, deviceIds }) => ({
    ...{ slug, name, description },
    device_ids: reached === null ? deviceIds : deviceIds.filter((id) => reached.has(id)),
  }));
}

async function groupBody(store: Services['store'], caller: Caller, one: Group): Promise<z.infer<typeof group>> {
  const [body] = await groupBodies(store, caller, [one]);
  return body as z.infer<typeof group>;
}

/** The ids without duplicates, if all are devices of the tenant. */
async function ownDeviceIds(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid,
  given: readonly string[],
): Promise<Outcome<Uuid[]>> {
  const ids = [...new Set(given.map((id) => id.toLowerCase()))];
  if (!ids.every((id) => uuid.safeParse(id).success)) return notFound('device');
  const found = ids.length === 0 ? [] : await store.devices.find(tenantId, ids);
  return found.length === ids.length ? done(ids) : notFound('device');
}

/**
 * Runs a change of groups, after which live streams of keys that are restricted to groups read the groups again.
 * `hasChanged`: whether the result is that of a change.
 */
async function publishingChange<T>(
  { invalidations }: Pick<Services, 'invalidations'>,
  tenantId: Uuid,
  change: () => Promise<T>,
  hasChanged: (result: T) => boolean,
): Promise<T> {
  // If it fails, its outcome may be unknown.
  let changed = true;
  try {
    const result = await change();
    changed = hasChanged(result);
    return result;
  } finally {
    if (changed) invalidations.publish({ about: 'groups', tenantId });
  }
}

// For the API reference.
const GROUP = {
  slug: 'evening-lights',
  name: 'Evening lights',
  description: 'Lights that turn on at dusk',
  device_ids: ['0195d9a2-7f00-7000-8000-000000000003'],
};

export const createGroup = operation({
  name: 'createGroup',
  summary: 'Create a group of devices',
  input: z.strictObject({
    name: displayName,
    description: description.optional(),
    device_ids: deviceIds.default([]),
  }),
  output: z.object({ status: z.literal('created'), slug: z.string() }),
  role: 'admin',
  scope: 'write:groups',
  changes: true,
  auditSubject: (_, { slug }) => `group:${slug}`,
  refuses: ['NOT_FOUND', 'QUOTA_REACHED'],
  example: {
    input: { name: GROUP.name, description: GROUP.description, device_ids: GROUP.device_ids },
    output: { status: 'created', slug: GROUP.slug },
  },
  needs: ['actors', 'clock', 'invalidations', 'locks', 'settings', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { clock } = services;
    const { records } = services.store;
    const tenantId = tenantOf(caller);
    const devices = await ownDeviceIds(services, tenantId, input.device_ids);
    if (!devices.ok) return devices;
    const tooMany = await quotaRefusal(services, tenantId, 'group_devices', () => devices.value.length);
    if (tooMany !== null) return tooMany;
    const insert = async () => {
      for (let n = 1; ; n++) {
        const slug = slugFrom(input.name, n === 1 ? undefined : n < 10 ? n : randomBytes(4).toString('hex'));
        const answer = { body: { status: 'created' as const, slug } };
        const { name, description = null } = input;
        const record = { tenantId, slug, name, description, deviceIds: devices.value, createdAt: clock.now() };
        if (await records.insertGroup(record, idempotent?.toRow(answer))) return done(answer);
      }
    };
    return publishingChange(
      services,
      tenantId,
      () => withinQuota(services, tenantId, 'groups', () => records.countGroups(tenantId), insert),
      ({ ok }) => ok,
    );
  },
});

export const listGroups = operation({
  name: 'listGroups',
  summary: "List the tenant's groups, newest first",
  input: z.strictObject({ ...paging }),
  output: z.object({ groups: z.array(group), count: listCount, next_cursor: nextCursor }),
  role: 'user',
  scope: 'read:groups',
  restrictedKeys: 'devices',
  changes: false,
  example: { output: { groups: [GROUP], count: 1, next_cursor: null } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const listing = { route: 'groups', ids: 'text' as const };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await store.records.groups(tenantOf(caller), input.limit, start.value, seenGroups(caller));
    const groups = await groupBodies(store, caller, page.items);
    return done({
      body: { groups, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getGroup = operation({
  name: 'getGroup',
  summary: 'Show a group with its devices',
  input: z.strictObject({ slug }),
  output: z.object({ group }),
  role: 'user',
  scope: 'read:groups',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { group: GROUP } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const found = await store.records.group(tenantOf(caller), input.slug);
    if (found === null || seenGroups(caller)?.includes(found.slug) === false) return notFound('group');
    return done({ body: { group: await groupBody(store, caller, found) } });
  },
});

export const updateGroup = operation({
  name: 'updateGroup',
  summary: 'Change the name or description of a group; its slug stays',
  input: z.strictObject({ slug, name: displayName.optional(), description: description.nullable().optional() }),
  output: z.object({ group }),
  role: 'admin',
  scope: 'write:groups',
  changes: true,
  auditSubject: ({ input }) => `group:${input.slug}`,
  refuses: ['NOT_FOUND'],
  example: { input: { name: GROUP.name }, output: { group: GROUP } },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const { slug, name, description } = input;
    const updated = await store.records.updateGroup(tenantOf(caller), slug, {
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
    });
    return updated === null ? notFound('group') : done({ body: { group: await groupBody(store, caller, updated) } });
  },
});

export const joinGroup = operation({
  name: 'joinGroup',
  summary: 'Add devices to a group',
  input: z
    .strictObject({
      slug,
      device_id: idOf('device').optional(),
      device_ids: deviceIds.min(1).optional(),
    })
    .refine(({ device_id, device_ids }) => (device_id === undefined) !== (device_ids === undefined), {
      message: 'send either device_id or device_ids',
      path: ['device_ids'],
    }),
  bodyRules: { oneOf: [{ required: ['device_id'] }, { required: ['device_ids'] }] },
  output: z.object({ status: z.literal('joined'), slug: z.string(), device_ids: z.array(uuid) }),
  role: 'user',
  scope: 'write:groups',
  changes: true,
  auditSubject: ({ input }) => `group:${input.slug}`,
  refuses: ['NOT_FOUND', 'QUOTA_REACHED'],
  example: {
    input: { device_ids: GROUP.device_ids },
    output: { status: 'joined', slug: GROUP.slug, device_ids: GROUP.device_ids },
  },
  needs: ['actors', 'invalidations', 'locks', 'settings', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { records } = services.store;
    const tenantId = tenantOf(caller);
    const devices = await ownDeviceIds(services, tenantId, input.device_ids ?? [input.device_id as string]);
    if (!devices.ok) return devices;
    return services.locks.exclusive(`group:${tenantId}:${input.slug}`, async () => {
      const found = await records.group(tenantId, input.slug);
      if (found === null) return notFound('group');
      const all = [...new Set([...found.deviceIds, ...devices.value])];
      const grows = all.length > found.deviceIds.length;
      const tooMany = grows ? await quotaRefusal(services, tenantId, 'group_devices', () => all.length) : null;
      if (tooMany !== null) return tooMany;
      const answer = { body: { status: 'joined' as const, slug: input.slug, device_ids: all } };
      const joined = await publishingChange(
        services,
        tenantId,
        () => records.joinGroup(tenantId, input.slug, devices.value, idempotent?.toRow(answer)),
        (result) => grows && result !== null,
      );
      return joined === null ? notFound('group') : done(answer);
    });
  },
});

export const leaveGroup = operation({
  name: 'leaveGroup',
  summary: 'Remove a device from a group',
  input: z.strictObject({ slug, id: idOf('device') }),
  output: z.null(),
  role: 'admin',
  scope: 'write:groups',
  changes: true,
  auditSubject: ({ input }) => `group:${input.slug}`,
  refuses: ['NOT_FOUND'],
  needs: ['invalidations', 'locks', 'store'],
  async run(services, { input, caller }) {
    const { store, locks } = services;
    const tenantId = tenantOf(caller);
    return locks.exclusive(`group:${tenantId}:${input.slug}`, async () => {
      if ((await store.records.group(tenantId, input.slug)) === null) return notFound('group');
      const left = await publishingChange(
        services,
        tenantId,
        () => store.records.leaveGroup(tenantId, input.slug, input.id),
        (hasLeft) => hasLeft,
      );
      return left ? done({ body: null }) : notFound('device');
    });
  },
});

export const deleteGroup = operation({
  name: 'deleteGroup',
  summary: 'Delete a group; its devices are kept',
  input: z.strictObject({ slug }),
  output: z.null(),
  role: 'admin',
  scope: 'write:groups',
  changes: true,
  refuses: ['NOT_FOUND'],
  needs: ['invalidations', 'store'],
  async run(services, { input, caller }) {
    const tenantId = tenantOf(caller);
    const deleted = await publishingChange(
      services,
      tenantId,
      () => services.store.records.deleteGroup(tenantId, input.slug),
      (isDeleted) => isDeleted,
    );
    return deleted ? done({ body: null }) : notFound('group');
  },
});
