import { z } from 'zod';
import type { Committed } from '../../actors/contract.ts';
import type { CommandStatus } from '../../domain/command.ts';
import { commandStatusSchema, safetyClassSchema, verificationStatusSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import { jsonObject, shownParams } from '../../domain/request-fields.ts';
import type { Preview } from '../../domain/twin.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import { commandStatusOf, verificationOf } from '../../machines/command-record.ts';
import type { CommandContext, CommandFixed, CommandLive } from '../../machines/command-types.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import type { JournalEntry, StoredActor } from '../../store/contract.ts';
import { findDevice, previewedDeviceSchema } from '../devices/device-view.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { keyNames, requestedWith, requestedWithOf } from '../requested-with.ts';

// Commands in answers.

/** More than any command has: acknowledgements without effect are recorded only up to a bound. */
const MAX_JOURNAL = 1_000;

export type CommittedCommand = Committed<CommandContext>;

/**
 * The caller's command. The same refusal for a missing command, for another tenant's, and for that of a device that the
 * caller's key does not reach.
 */
export async function findCommand(
  { actors }: Pick<Services, 'actors'>,
  caller: Caller,
  id: Uuid,
): Promise<Outcome<CommittedCommand>> {
  const ref = { kind: 'command', id } as const;
  const command = actors.peek<CommandContext>(ref) ?? (await actors.read<CommandContext>(ref));
  if (command?.snapshot.context.fixed.tenantId !== tenantOf(caller)) return notFound('command');
  if (caller.restriction !== undefined) {
    const device = await findDevice({ actors }, caller, command.snapshot.context.fixed.deviceId);
    if (!device.ok) return notFound('command');
  }
  return done(command);
}

/** The id of a principal: the user's, whatever token or key was used, the device's, or the service's name. */
export const principalId = (principal: Principal): string => principal.id;

/** The expected effect of the command, from the device's state at the time of the request. */
export const previewBody = z.object({
  current: jsonObject.meta({ description: 'The reported values of the properties in `expected`' }),
  expected: jsonObject.nullable(),
  changes: z.record(z.string(), z.object({ from: z.json(), to: z.json() })).nullable(),
  firmware: z
    .object({
      version: z.string(),
      url_host: z.string().nullable().meta({ description: 'Host that the device downloads from' }),
      checksum: z.string().nullable().meta({ description: 'SHA-256, hex' }),
      released_by: uuid.nullable().meta({ description: 'The id of the user that released it' }),
    })
    .optional()
    .meta({ description: 'The release that `update_firmware` installs' }),
  device: previewedDeviceSchema
    .optional()
    .meta({ description: 'The device of a command that can wait: a confirmation covers its name and place too' }),
});

/** Identifies what a preview shows: SHA-256 (hex) of its canonical form. */
export const hashPreview = (shown: Preview): string => payloadHash(shown as unknown as JsonObject);

export const previewHash = z.string().meta({ description: 'SHA-256 of the preview, in hex; identifies what it shows' });

/** Answer of a confirmation that was not accepted, because the command has another effect than the one confirmed. */
export const previewChanged = z.object({
  status: z.literal('dry_run_required'),
  reason: z.string(),
  expires_at: isoTime,
  command_id: uuid,
  preview: previewBody,
  preview_hash: previewHash,
});

export const cancelledBody = z.object({ status: z.literal('cancelled'), command_id: uuid });

const anyValue = z.json() as z.ZodType<Json>;

const refusal = z
  .object({ code: z.string(), detail: z.string() })
  .meta({ id: 'CommandRefusal', description: 'Why the safety gateway refused the command' });

/** The members that every list of commands has. */
export const commandEntry = z.object({
  id: uuid,
  action: z.string(),
  params: shownParams,
  timestamp: isoTime,
  status: commandStatusSchema,
  progress: anyValue
    .optional()
    .meta({ description: 'The last progress that the device reported, in a unit that the device chooses' }),
  refusal: refusal.optional(),
  error: anyValue.optional().meta({ description: 'The error that the device reported' }),
});
type HistoryEntry = z.infer<typeof commandEntry>;

/** The entry of a stored command. Its context is divided into fixed and live members only when it is loaded. */
export function entryOf({ value, context }: StoredActor): HistoryEntry {
  const { id, action, params, requestedAt, refusal, answer } = context as unknown as CommandFixed & CommandLive;
  return {
    ...{ id, action, params, timestamp: iso(requestedAt), status: commandStatusOf({ value }) },
    ...reportedOf({ refusal, answer }),
  };
}

/** Progress, refusal and error, where there are any. */
const reportedOf = ({
  refusal,
  answer: { progress, error },
}: Pick<CommandFixed, 'refusal'> & Pick<CommandLive, 'answer'>): Pick<
  HistoryEntry,
  'progress' | 'refusal' | 'error'
> => ({
  ...(progress !== null && { progress }),
  ...(refusal !== null && { refusal }),
  ...(error !== null && { error }),
});

export const listCommands = operation({
  name: 'listCommands',
  summary: "List a device's commands, including refused ones, newest first",
  input: z.strictObject({ deviceId: idOf('device'), ...paging }),
  output: z.object({
    commands: z.array(commandEntry.meta({ id: 'CommandEntry' })),
    count: listCount,
    next_cursor: nextCursor,
  }),
  role: 'user',
  scope: 'read:commands',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const { deviceId, limit, cursor } = input;
    const device = await findDevice(services, caller, deviceId);
    if (!device.ok) return device;
    const listing = { route: 'commands', filters: { device_id: deviceId } };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const page = await services.store.commands.list(tenantOf(caller), deviceId, limit, start.value);
    const commands = page.items.map(entryOf);
    return done({
      body: { commands, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

const timelineEntry = z.object({
  status: commandStatusSchema,
  at: isoTime,
  by: z.string().meta({ description: 'The id of the user or device, or twinkeep' }),
  reason: z.string().optional(),
});

const commandRecord = commandEntry
  .extend({
    device_id: uuid,
    safety_class: safetyClassSchema.nullable(),
    ttl_s: z.int(),
    timeout_s: z.int(),
    requested_by: z.string(),
    requested_with: requestedWith.optional().meta({ description: 'If the command needed a confirmation' }),
    confirmed_by: z.string().optional(),
    result: anyValue.optional(),
    late: z.literal(true).optional(),
    verification: z.object({
      status: verificationStatusSchema,
      expected: jsonObject.optional(),
      observed: jsonObject.optional(),
      checked_at: isoTime.nullable(),
    }),
    timeline: z.array(timelineEntry),
  })
  .meta({ id: 'Command' });

export const getCommand = operation({
  name: 'getCommand',
  summary: 'Show a command with its verification and the timeline of its statuses',
  input: z.strictObject({ id: idOf('command') }),
  output: z.object({ command: commandRecord }),
  role: 'user',
  scope: 'read:commands',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const found = await findCommand(services, caller, input.id);
    if (!found.ok) return found;
    const { confirmation, requestedBy } = found.value.snapshot.context.fixed;
    const [journal, names] = await Promise.all([
      services.store.actors.journal(found.value.ref, MAX_JOURNAL),
      confirmation === null ? null : keyNames(services, [requestedBy]),
    ]);
    const command = recordOf(found.value, journal);
    return done({
      body: { command: names === null ? command : { ...command, requested_with: requestedWithOf(requestedBy, names) } },
    });
  },
});

function recordOf({ snapshot }: CommittedCommand, journal: readonly JournalEntry[]): z.infer<typeof commandRecord> {
  const { fixed, live } = snapshot.context;
  const { confirmedBy, refusal, limits } = fixed;
  const { result, late } = live.answer;
  const { expected, observed, checkedAt } = live.verification;
  return {
    id: fixed.id,
    device_id: fixed.deviceId,
    action: fixed.action,
    params: fixed.params,
    status: commandStatusOf(snapshot),
    safety_class: fixed.safetyClass,
    timestamp: iso(fixed.requestedAt),
    ttl_s: limits.ttlMs / 1_000,
    timeout_s: limits.timeoutMs / 1_000,
    requested_by: principalId(fixed.requestedBy),
    ...(confirmedBy !== null && { confirmed_by: principalId(confirmedBy) }),
    ...reportedOf({ refusal, answer: live.answer }),
    ...(result !== null && { result }),
    ...(late && { late: true as const }),
    verification: {
      status: verificationOf(snapshot),
      ...(expected !== null && { expected }),
      ...(observed !== null && { observed }),
      checked_at: checkedAt === null ? null : iso(checkedAt),
    },
    timeline: timelineOf(fixed, journal),
  };
}

/** Every change of the status, oldest first, without changes of the verification. */
function timelineOf(fixed: CommandFixed, journal: readonly JournalEntry[]): z.infer<typeof timelineEntry>[] {
  const { requestedAt, requestedBy } = fixed;
  const timeline: z.infer<typeof timelineEntry>[] = [
    { status: 'submitted', at: iso(requestedAt), by: principalId(requestedBy) },
  ];
  let last: CommandStatus = 'submitted';
  for (const { at, by, to, data } of [...journal].sort((a, b) => a.version - b.version)) {
    const status = commandStatusOf({ value: to });
    if (status === last) continue;
    last = status;
    timeline.push({ status, at: iso(at), by: principalId(by), ...reasonIn(data) });
  }
  return timeline;
}

function reasonIn(data: JsonObject | null): { reason?: string } {
  return typeof data?.reason === 'string' ? { reason: data.reason } : {};
}
