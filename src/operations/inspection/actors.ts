import { z } from 'zod';
import type { Listing } from '../../domain/cursor.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { jsonObject, shownParams } from '../../domain/request-fields.ts';
import { eventText, stateText } from '../../domain/state-path.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { nextEvents } from '../../machines/chart.ts';
import type { MachineDefinition } from '../../machines/definition.ts';
import { actorKinds } from '../../machines/outputs.ts';
import { definitionFor } from '../../machines/versions.ts';
import type { ListedActor, ListedCommand } from '../../store/contract/inspection.ts';
import type { StoredActor } from '../../store/contract.ts';
import { principalId } from '../commands/command-view.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { cursorAfter, cursorsIn, idOf, isoTime, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { operation, type Services } from '../operation.ts';
import { listActorsOfKinds } from './actor-lists.ts';
import { actorKind } from './machines.ts';

// Inspection of a tenant's actors by its administrators.

const entry = z
  .object({
    kind: actorKind,
    id: uuid,
    name: z
      .string()
      .nullable()
      .meta({ description: "A device's name or type, a command's action, a plan's or tenant's name" }),
    state: z.string().meta({ description: 'Such as `administration.active.one_key,link.online`' }),
    version: z.int().meta({ description: 'Number of transitions' }),
    since: isoTime.meta({ description: 'When its state last changed' }),
    live: z.boolean().meta({ description: 'Whether it is in memory' }),
    mailbox: z.int().meta({ description: 'Pending events' }),
    quarantined: z.boolean().meta({ description: 'Whether it is stopped until an administrator releases it' }),
    command: z
      .object({
        device_id: uuid,
        device_name: z
          .string()
          .nullable()
          .meta({ description: "The device's name or type; null if the device was deleted" }),
        params: shownParams,
        requested_by: z.string().nullable().meta({ description: 'The id of the user' }),
      })
      .optional()
      .meta({ description: 'Of a command in a list' }),
  })
  .meta({ id: 'ActorEntry' });
type Entry = z.infer<typeof entry>;

const record = entry
  .omit({ command: true })
  .extend({
    machine_version: z.int(),
    quarantine_reason: z.string().nullable(),
    context: jsonObject
      .nullable()
      .meta({ description: 'Without secrets; null if the stored context fits no machine version' }),
    next_events: z.array(z.string()).meta({ description: 'Events that it accepts in this state' }),
    timers: z.array(z.object({ event: z.string(), due_at: isoTime })),
  })
  .meta({ id: 'Actor' });

const journalEntry = z
  .object({
    version: z.int(),
    at: isoTime,
    by: z.string().meta({ description: 'The id of the user or device, or twinkeep' }),
    event: z.string(),
    from: z.string().nullable(),
    to: z.string(),
    data: jsonObject.nullable(),
  })
  .meta({ id: 'JournalEntry' });

const admin = { role: 'admin', acrossTenants: true } as const;
const actorRefInput = { kind: actorKind.meta({ noun: 'actor' }), id: idOf('actor'), tenant_id: tenantIdInput };

type ActorFields = Pick<ListedActor, 'ref' | 'name' | 'version' | 'value' | 'since' | 'quarantine'>;

function entryOf(
  { actors }: Pick<Services, 'actors'>,
  { ref, name, version, value, since, quarantine }: ActorFields,
): Entry {
  const { live, mailbox, quarantine: liveQuarantine } = actors.inspect(ref);
  const quarantined = quarantine !== null || liveQuarantine !== null;
  return { ...ref, name, state: stateText(value), version, since: iso(since), live, mailbox, quarantined };
}

const commandFieldsOf = ({ deviceId, deviceName, params, requestedBy }: ListedCommand) => ({
  ...{ device_id: deviceId, device_name: deviceName, params: params ?? {} },
  requested_by: requestedBy === null ? null : principalId(requestedBy),
});

export const listActors = operation({
  ...admin,
  name: 'listActors',
  summary: "List the tenant's actors, newest first; a page may have fewer entries than its limit and still a next page",
  input: z.strictObject({
    kind: actorKind.optional().meta({ description: 'Only of this kind' }),
    state: z.string().min(1).max(200).optional().meta({
      description:
        'A state, by its path or the end of its path, such as `active` or `link.online`; several, separated by commas, must all apply',
    }),
    quarantined: z.boolean().optional().meta({ description: 'Only quarantined actors, or only others' }),
    tenant_id: tenantIdInput,
    ...paging,
  }),
  output: z.object({ actors: z.array(entry), count: listCount, next_cursor: nextCursor }),
  scope: 'read:actors',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const tenant = await targetTenant(services, caller, input, admin.role);
    if (!tenant.ok) return tenant;
    const { kind, state, quarantined, limit } = input;
    const listing: Listing = { route: 'actors', filters: { tenant_id: tenant.value, kind, state, quarantined } };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await listActorsOfKinds(services.store.inspection, {
      tenantId: tenant.value,
      kinds: kind === undefined ? actorKinds : [kind],
      ...{ state, quarantined, limit, after: start.value },
    });
    if (!page.ok) return page;
    const actors = page.value.items.map((actor) => ({
      ...entryOf(services, actor),
      ...(actor.command !== null && { command: commandFieldsOf(actor.command) }),
    }));
    return done({
      body: { actors, count: await page.value.count(), next_cursor: cursorAfter(listing, page.value) },
      cursors: cursorsIn(listing, page.value),
    });
  },
});

export const getActor = operation({
  ...admin,
  name: 'getActor',
  summary: 'Show an actor with its context, the events that it accepts, and its timers',
  input: z.strictObject(actorRefInput),
  output: z.object({ actor: record }),
  scope: 'read:actors',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const tenant = await targetTenant(services, caller, input, admin.role);
    if (!tenant.ok) return tenant;
    const ref = { kind: input.kind, id: input.id };
    const { inspection } = services.store;
    const [actor, timers] = await Promise.all([inspection.actor(tenant.value, ref), inspection.timers(ref)]);
    if (actor === null) return notFound('actor');
    const body = {
      ...entryOf(services, { ...actor, name: nameOf(actor) }),
      machine_version: actor.machineVersion,
      quarantine_reason: actor.quarantine ?? services.actors.inspect(ref).quarantine,
      ...readableContextOf(actor),
      timers: timers.map(({ event, dueAt }) => ({ event: eventText(event), due_at: iso(dueAt) })),
    };
    return done({ body: { actor: body } });
  },
});

/** The name shown in the list, read from the stored context. */
function nameOf({ ref, context }: StoredActor): string | null {
  const { name, deviceType, action } = context as Partial<Record<string, Json>>;
  const label = ref.kind === 'command' ? action : (name ?? deviceType);
  return typeof label === 'string' ? label : null;
}

/** Null and empty if this build cannot read the stored context. */
function readableContextOf({ ref, machineVersion, value, context }: StoredActor): {
  context: JsonObject | null;
  next_events: string[];
} {
  try {
    const definition: MachineDefinition = definitionFor(ref.kind, machineVersion);
    const adminView = definition.toAdminView(definition.fromStored(context));
    return { context: adminView, next_events: nextEvents(definition.machine, value) };
  } catch {
    return { context: null, next_events: [] };
  }
}

export const getActorJournal = operation({
  ...admin,
  name: 'getActorJournal',
  summary: 'List the journal of an actor, newest first; also of a deleted actor, until its journal expires',
  input: z.strictObject({ ...actorRefInput, ...paging }),
  output: z.object({ entries: z.array(journalEntry), count: listCount, next_cursor: nextCursor }),
  scope: 'read:actors',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const tenant = await targetTenant(services, caller, input, admin.role);
    if (!tenant.ok) return tenant;
    const { kind, id, limit, cursor } = input;
    const listing: Listing = { route: 'journal', filters: { tenant_id: tenant.value, kind, id }, ids: 'integer' };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const { inspection } = services.store;
    const before = start.value === undefined ? undefined : Number(start.value.id);
    const found = await inspection.journal(tenant.value, { kind, id }, limit + 1, before);
    if (found.length === 0 && (await inspection.actor(tenant.value, { kind, id })) === null) return notFound('actor');
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    const positionOf = ({ at, version }: (typeof items)[number]) => ({ createdAt: at, id: `${version}` });
    const isOnly = cursor === undefined && last === undefined;
    const page = {
      ...{ items, next: last === undefined ? null : positionOf(last), positions: () => items.map(positionOf) },
      count: async () => (isOnly ? items.length : null),
    };
    const entries = items.map(({ version, at, by, event, from, to, data }) => ({
      ...{ version, at: iso(at), by: principalId(by), event: eventText(event), data },
      ...{ from: from === null ? null : stateText(from), to: stateText(to) },
    }));
    return done({
      body: { entries, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const releaseActor = operation({
  ...admin,
  name: 'releaseActor',
  summary: 'End the quarantine of an actor',
  input: z.strictObject(actorRefInput),
  output: z.object({ status: z.literal('released'), actor: entry }),
  scope: 'write:actors',
  changes: true,
  auditSubject: ({ input, caller }) => ({
    subject: `${input.kind}:${input.id}`,
    tenantId: input.tenant_id ?? caller.tenantId,
  }),
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'ILLEGAL_TRANSITION'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const tenant = await targetTenant(services, caller, input, admin.role);
    if (!tenant.ok) return tenant;
    const ref = { kind: input.kind, id: input.id };
    const { actors, store } = services;
    const before = await store.inspection.actor(tenant.value, ref);
    if (before === null) return notFound('actor');
    if ((before.quarantine ?? actors.inspect(ref).quarantine) === null)
      return refuse('ILLEGAL_TRANSITION', 'The actor is not quarantined.');
    await actors.releaseQuarantine(ref);
    await actors.read(ref);
    const quarantine: string | null = actors.inspect(ref).quarantine;
    if (quarantine !== null) return quarantinedAgain(quarantine);
    return done({
      body: {
        status: 'released' as const,
        actor: entryOf(services, { ...before, name: nameOf(before), quarantine: null }),
      },
    });
  },
});

/** For example, its stored context fits no machine version of this build. */
const quarantinedAgain = (reason: string): Outcome<never> =>
  refuse('ILLEGAL_TRANSITION', `The actor was quarantined again: ${reason}`);
