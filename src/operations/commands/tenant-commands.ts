import { z } from 'zod';
import { commandStatusSchema } from '../../domain/enum-schemas.ts';
import { done } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandFixed } from '../../machines/command-types.ts';
import type { CommandFilter } from '../../store/contract/commands.ts';
import { cursorAfter, cursorsIn, listCount, nextCursor, paging, startOf, timeInput } from '../inputs.ts';
import { reachedDeviceIds } from '../key-reach.ts';
import { operation, tenantOf } from '../operation.ts';
import { commandEntry, entryOf, principalId } from './command-view.ts';

// The commands of all devices of a tenant.

const tenantCommand = commandEntry
  .extend({
    device_id: uuid,
    requested_by: z.string().meta({ description: 'The id of the requesting user' }),
    plan_id: uuid.optional().meta({ description: 'The plan that the command is a step of' }),
  })
  .meta({ id: 'TenantCommand' });

const filterFields = {
  device_id: uuid.optional().meta({ description: 'Only commands of this device; an unknown one has none' }),
  status: commandStatusSchema.optional().meta({ description: 'Only commands in this status' }),
  requested_by: uuid.optional().meta({ description: 'Only commands of this user' }),
  from: timeInput.optional().meta({ description: 'Requested at or after this time' }),
  to: timeInput.optional().meta({ description: 'Requested before this time' }),
};

export const listTenantCommands = operation({
  name: 'listTenantCommands',
  summary:
    'List the commands of all devices, including refused ones, newest first. A page with a status or a requester can have fewer entries than its limit, and even none, although there is a next page',
  input: z.strictObject({ ...filterFields, ...paging }),
  output: z.object({ commands: z.array(tenantCommand), count: listCount, next_cursor: nextCursor }),
  role: 'user',
  scope: 'read:commands',
  restrictedKeys: 'devices',
  changes: false,
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const { limit, cursor, ...filters } = input;
    const listing = { route: 'tenant-commands', filters };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const { device_id: deviceId, status, requested_by: requestedBy, from, to } = filters;
    const filter: CommandFilter = {
      deviceIds: amongReached(deviceId, await reachedDeviceIds(store, caller)),
      ...(status !== undefined && { status }),
      ...(requestedBy !== undefined && { requestedBy }),
      ...(from !== undefined && { from: Date.parse(from) }),
      ...(to !== undefined && { to: Date.parse(to) }),
    };
    const page = await store.commands.listAll(tenantOf(caller), filter, limit, start.value);
    const commands = page.items.map((row) => {
      const { deviceId: device_id, requestedBy, origin } = row.context as unknown as ListedCommand;
      const plan = origin?.plan ?? null;
      return {
        ...{ ...entryOf(row), device_id, requested_by: principalId(requestedBy) },
        ...(plan !== null && caller.restriction === undefined && { plan_id: plan.id }),
      };
    });
    return done({
      body: { commands, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

/** Rows written by an older version have no origin. */
type ListedCommand = Omit<CommandFixed, 'origin'> & Partial<Pick<CommandFixed, 'origin'>>;

/** The requested device, if it is reached; undefined: all devices. */
function amongReached(deviceId: Uuid | undefined, reached: readonly Uuid[] | undefined): readonly Uuid[] | undefined {
  if (deviceId === undefined) return reached;
  return reached === undefined || reached.includes(deviceId) ? [deviceId] : [];
}
