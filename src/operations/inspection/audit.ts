import { z } from 'zod';
import { parseHead } from '../../domain/audit-chain.ts';
import type { Listing } from '../../domain/cursor.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { AuditEntry, AuditFilter } from '../../store/contract/audit.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { cursorAfter, cursorsIn, isoTime, listCount, nextCursor, paging, startOf, timeInput } from '../inputs.ts';
import { type Caller, operation, type Services } from '../operation.ts';
import { subjectNames } from './subject-names.ts';

const entry = z
  .object({
    at: isoTime,
    by: uuid.meta({ description: 'The user' }),
    key: z.string().nullable().meta({ description: "The API key's prefix, if a key was used" }),
    via: z.string().meta({ description: 'The edge, such as `rest` or `mcp`' }),
    action: z.string().meta({ description: 'The operation; if unknown, the event of the actor' }),
    subject: z.string().meta({ description: 'Such as `device:<id>`' }),
    outcome: z.string().meta({ description: '`done`, or the code of the refusal' }),
    request_id: uuid.nullable(),
    address: z.string().nullable().meta({
      description: 'The client’s address; null for actions on devices, commands, plans and the tenant itself',
    }),
    client: z.string().nullable().meta({ description: 'The client as it calls itself; null likewise' }),
    count: z.int().meta({
      description:
        'Above 1: so many repetitions, within a minute, of an earlier entry. Of `dropAuditEntries`: so many refused attempts were not recorded. Of `exportHistoryRows`: so many rows were sent',
    }),
    subject_name: z.string().nullable().meta({
      description:
        "The current name of the subject: a device's name or type, a command's action, the device type and version of a firmware release, or the name of a plan, home, room, group, dashboard, device CA or firmware key; otherwise null",
    }),
  })
  .meta({ id: 'AuditEntry' });

const platformInput = z
  .boolean()
  .default(false)
  .meta({ description: 'For platform operators only: actions without a tenant, such as changes of flags' });

export const auditFilters = z.strictObject({
  by: uuid.optional().meta({ description: 'Only actions of this user' }),
  action: z.string().min(1).max(64).regex(/^\S+$/).optional().meta({ description: 'Only this operation' }),
  subject: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[\x21-\x7e]+$/)
    .optional()
    .meta({ description: 'Only actions on this subject, such as `device:<id>`' }),
  from: timeInput.optional().meta({ description: 'At or after this time' }),
  to: timeInput.optional().meta({ description: 'Before this time' }),
  tenant_id: tenantIdInput,
  platform: platformInput,
});

export const listAudit = operation({
  name: 'listAudit',
  summary:
    'List actions and refusals, newest first; a page may have fewer entries than its limit and still a next page',
  input: auditFilters.extend(paging),
  output: z.object({ entries: z.array(entry), count: listCount, next_cursor: nextCursor }),
  role: 'admin',
  acrossTenants: true,
  scope: 'read:audit',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors', 'store'],
  async run(services, { input, caller }) {
    const tenant = await auditedTenant(services, caller, input);
    if (!tenant.ok) return tenant;
    const { by, action, subject, from, to, limit, cursor } = input;
    const listing: Listing = {
      route: 'audit',
      filters: { tenant_id: tenant.value, by, action, subject, from, to },
      ids: 'entry',
    };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const page = await services.store.audit.list(tenant.value, auditFilterOf(input), limit, start.value);
    return done({
      body: {
        entries: await auditEntriesOf(services, tenant.value, page.items),
        count: await page.count(),
        next_cursor: cursorAfter(listing, page),
      },
      cursors: cursorsIn(listing, page),
    });
  },
});

const head = z
  .string()
  .max(110)
  .refine((text) => parseHead(text) !== null, 'must be <sequence>:<64 hexadecimal digits>:<time in ms>');

export const verifyAudit = operation({
  name: 'verifyAudit',
  summary:
    'Verify the hash chain over the audit log of the tenant: whether sealed entries were changed, added or removed. A long log takes several requests: each continues where the previous one ended',
  input: z.strictObject({
    from: head.optional().meta({
      description:
        'Only what follows this head, which must be part of the chain: `head` or `next` of an earlier answer',
    }),
    retention_days: z.int().min(1).max(36_500).optional().meta({
      description:
        'No entry of so many days may be gone; the default is the retention of the service. A smaller number if it was raised, until what was deleted before is as old',
    }),
    tenant_id: tenantIdInput,
    platform: platformInput,
  }),
  output: z.object({
    intact: z.boolean().meta({ description: 'False: `problem` is what is wrong' }),
    problem: z.string().nullable(),
    blocks: z.int().meta({ description: 'Blocks whose entries were verified' }),
    entries: z.int().meta({ description: 'Entries in them' }),
    expired: z
      .int()
      .meta({ description: 'Blocks with entries that retention has deleted; their hashes were verified' }),
    head: z.string().nullable().meta({ description: 'The end of the chain. Keep it elsewhere, and send it as `from`' }),
    sealed_to: isoTime.nullable().meta({ description: 'Time of the newest sealed entry' }),
    unsealed: z.int().meta({ description: 'Entries that were not sealed yet; at most 1,000' }),
    next: z
      .string()
      .nullable()
      .meta({ description: 'The value of `from` that continues; null at the end of the chain' }),
  }),
  role: 'admin',
  acrossTenants: true,
  scope: 'read:audit',
  changes: false,
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  example: {
    output: {
      ...{ intact: true, problem: null, blocks: 310, entries: 4_117, expired: 2 },
      head: `312:${'5f'.repeat(32)}:1772366400000`,
      ...{ sealed_to: '2026-03-01T12:00:00.000Z', unsealed: 3, next: null },
    },
  },
  needs: ['actors', 'auditChain'],
  async run(services, { input, caller }) {
    const tenant = await auditedTenant(services, caller, input);
    if (!tenant.ok) return tenant;
    const report = await services.auditChain.verify(
      ...([tenant.value, parseHead(input.from ?? ''), input.retention_days] as const),
    );
    const { problem, blocks, entries, expired, head, sealedTo, unsealed, next } = report;
    return done({
      body: {
        ...{ intact: problem === null, problem, blocks, entries, expired, head },
        ...{ sealed_to: sealedTo === null ? null : iso(sealedTo), unsealed, next },
      },
    });
  },
});

/** Null: actions without a tenant. */
export async function auditedTenant(
  services: Pick<Services, 'actors'>,
  caller: Caller,
  input: Pick<z.infer<typeof auditFilters>, 'platform' | 'tenant_id'>,
): Promise<Outcome<Uuid | null>> {
  if (!input.platform) return targetTenant(services, caller, input, 'admin');
  if (!caller.platformAdmin) return refuse('FORBIDDEN', 'platform is for platform operators only.');
  return input.tenant_id === undefined
    ? done(null)
    : refuse('VALIDATION_FAILED', 'platform and tenant_id are mutually exclusive: send one of them.');
}

/** As they are shown on every protocol. */
export async function auditEntriesOf(
  services: Pick<Services, 'store'>,
  tenantId: Uuid | null,
  entries: readonly AuditEntry[],
): Promise<z.infer<typeof entry>[]> {
  const subjects = entries.map(({ subject }) => subject);
  const names = tenantId === null ? null : await subjectNames(services, tenantId, subjects);
  return entries.map(({ at, via, requestId, ...rest }) => ({
    ...{ at: iso(at), ...rest, via: via ?? 'unknown', request_id: requestId },
    subject_name: names?.get(rest.subject) ?? null,
  }));
}

export const auditFilterOf = ({ by, action, subject, from, to }: z.infer<typeof auditFilters>): AuditFilter => ({
  ...(by !== undefined && { by }),
  ...(action !== undefined && { action }),
  ...(subject !== undefined && { subject }),
  ...(from !== undefined && { from: Date.parse(from) }),
  ...(to !== undefined && { to: Date.parse(to) }),
});
