import { z } from 'zod';
import type { Listing } from '../../domain/cursor.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { AuditEntry } from '../../store/contract/audit.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { cursorAfter, cursorsIn, isoTime, nextCursor, paging, startOf } from '../inputs.ts';
import { type Caller, operation, type Services } from '../operation.ts';

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
    count: z.int().meta({ description: 'Above 1: so many repetitions, within a minute, of an earlier entry' }),
  })
  .meta({ id: 'AuditEntry' });

const filters = z.strictObject({
  by: uuid.optional().meta({ description: 'Only actions of this user' }),
  action: z.string().min(1).max(64).regex(/^\S+$/).optional().meta({ description: 'Only this operation' }),
  subject: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[\x21-\x7e]+$/)
    .optional()
    .meta({ description: 'Only actions on this subject, such as `device:<id>`' }),
  from: isoTime.optional().meta({ description: 'At or after this time' }),
  to: isoTime.optional().meta({ description: 'Before this time' }),
  tenant_id: tenantIdInput,
  platform: z
    .boolean()
    .default(false)
    .meta({ description: 'For platform operators only: actions without a tenant, such as changes of flags' }),
});

export const listAudit = operation({
  name: 'listAudit',
  summary: 'List actions and refusals, newest first; a page may have fewer entries than `limit` and still a next page',
  input: filters.extend(paging),
  output: z.object({ entries: z.array(entry), next_cursor: nextCursor }),
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
    const page = await services.store.audit.list(
      tenant.value,
      {
        ...(by !== undefined && { by }),
        ...(action !== undefined && { action }),
        ...(subject !== undefined && { subject }),
        ...(from !== undefined && { from: Date.parse(from) }),
        ...(to !== undefined && { to: Date.parse(to) }),
      },
      limit,
      start.value,
    );
    return done({
      body: { entries: page.items.map(entryOf), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

/** Null: actions without a tenant. */
async function auditedTenant(
  services: Pick<Services, 'actors'>,
  caller: Caller,
  input: z.infer<typeof filters>,
): Promise<Outcome<Uuid | null>> {
  if (!input.platform) return targetTenant(services, caller, input, 'admin');
  if (!caller.platformAdmin) return refuse('FORBIDDEN', 'platform is for platform operators only.');
  return input.tenant_id === undefined
    ? done(null)
    : refuse('VALIDATION_FAILED', 'platform and tenant_id are mutually exclusive: send one of them.');
}

const entryOf = ({ at, via, requestId, ...rest }: AuditEntry): z.infer<typeof entry> => ({
  ...{ at: iso(at), ...rest, via: via ?? 'unknown', request_id: requestId },
});
