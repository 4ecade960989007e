import { z } from 'zod';
import { done, refuse } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { MachineEvent } from '../../machines/definition.ts';
import type { TenantEvent } from '../../machines/tenant-types.ts';
import { flagNames } from '../../services/flags.ts';
import type { TenantRow } from '../../store/contract/administration.ts';
import { cursorAfter, cursorsIn, idOf, notFound, paging, startOf } from '../inputs.ts';
import { type Call, operation, type Services } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';

// Operations of platform operators (contract §3): they need no tenant, and are allowed under suspension and
// maintenance.

/** Timestamp format of tenant records (contract §2). */
const timestamp = z.object({ _seconds: z.int(), _nanoseconds: z.int() });
const timestampOf = (at: number) => ({ _seconds: Math.floor(at / 1_000), _nanoseconds: (at % 1_000) * 1_000_000 });

/** A tenant as operators and its own people see it. */
export const tenantRecord = z
  .object({
    ...{ id: uuid, name: z.string(), slug: z.string(), created_at: timestamp },
    status: z.enum(['active', 'suspended']),
    tier: z.string(),
  })
  .meta({ id: 'Tenant' });

export const tenantBody = ({
  suspended,
  createdAt,
  ...shown
}: Pick<TenantRow, 'id' | 'name' | 'slug' | 'tier' | 'suspended' | 'createdAt'>): z.infer<typeof tenantRecord> => ({
  ...shown,
  created_at: timestampOf(createdAt),
  status: suspended ? 'suspended' : 'active',
});

const TENANT = '0195d9a2-7f00-7000-8000-000000000004';
const operatorOnly = { role: 'none', scope: null, platformOnly: true } as const;
const operatorChange = { ...operatorOnly, changes: true, inMaintenance: true } as const;
const reasonInput = reason.optional().meta({ description: "Recorded in the tenant's journal" });

export const listTenants = operation({
  ...operatorOnly,
  name: 'listTenants',
  summary: 'List all tenants, newest first; the next page is in the Link header, the number of all in X-Total-Count',
  input: z.strictObject({ ...paging }),
  output: z.array(tenantRecord),
  changes: false,
  audit: 'read',
  example: {
    output: [
      {
        ...{ id: TENANT, name: 'Lakeside', slug: 'lakeside', status: 'active', tier: 'free' },
        created_at: { _seconds: 1_772_366_400, _nanoseconds: 0 },
      },
    ],
  },
  needs: ['store'],
  async run({ store }, { input }) {
    const listing = { route: 'tenants' };
    const start = startOf(listing, input.cursor);
    if (!start.ok) return start;
    const page = await store.administration.tenants(input.limit, start.value);
    const body = page.items.map(tenantBody);
    const total = await page.count();
    return done({ body, total, next: cursorAfter(listing, page), cursors: cursorsIn(listing, page) });
  },
});

export const suspendTenant = operation({
  ...operatorChange,
  name: 'suspendTenant',
  audit: 'journal',
  summary: 'Suspend a tenant: its sessions end, sign-in is refused, commands are not dispatched',
  input: z.strictObject({
    id: idOf('tenant'),
    reason: reasonInput,
    notice: reason.optional().meta({
      description: 'Shown to the members of the tenant while it is suspended; the `reason` is not',
    }),
  }),
  output: z.object({ status: z.literal('suspended'), tenant_id: uuid }),
  refuses: ['NOT_FOUND'],
  example: {
    input: { reason: 'Unpaid since March', notice: 'Your subscription has ended.' },
    output: { status: 'suspended', tenant_id: TENANT },
  },
  needs: ['actors', 'clock'],
  run(services, call) {
    const { id, reason, notice } = call.input;
    const event: TenantEvent = {
      ...{ type: 'suspend', ...occurrence(services, call) },
      ...(reason !== undefined && { reason }),
      ...(notice !== undefined && { notice }),
    };
    return sendToTenant(services, call, event, { status: 'suspended' as const, tenant_id: id });
  },
});

export const resumeTenant = operation({
  ...operatorChange,
  name: 'resumeTenant',
  audit: 'journal',
  summary: 'Resume a suspended tenant',
  input: z.strictObject({ id: idOf('tenant'), reason: reasonInput }),
  output: z.object({ status: z.literal('active'), tenant_id: uuid }),
  refuses: ['NOT_FOUND'],
  example: { input: { reason: 'Paid again' }, output: { status: 'active', tenant_id: TENANT } },
  needs: ['actors', 'clock'],
  run(services, call) {
    const { id, reason } = call.input;
    const event: TenantEvent = {
      ...{ type: 'resume', ...occurrence(services, call) },
      ...(reason !== undefined && { reason }),
    };
    return sendToTenant(services, call, event, { status: 'active' as const, tenant_id: id });
  },
});

export const setTier = operation({
  ...operatorChange,
  name: 'setTier',
  audit: 'journal',
  summary: "Set the tier, which determines a tenant's request rate limit",
  input: z.strictObject({ id: idOf('tenant'), tier: z.string().min(1).max(64).meta({ oneOfTiers: true }) }),
  output: z.object({ tenant_id: uuid, tier: z.string() }),
  refuses: ['NOT_FOUND'],
  example: { input: { tier: 'free' }, output: { tenant_id: TENANT, tier: 'free' } },
  needs: ['actors', 'clock', 'settings'],
  async run(services, call) {
    const { id, tier } = call.input;
    const { rateLimits } = services.settings;
    if (!Object.hasOwn(rateLimits, tier)) {
      const message = `must be one of ${Object.keys(rateLimits).join(', ')}`;
      return refuse('VALIDATION_FAILED', `tier: ${message}`, { errors: [{ path: 'tier', message }] });
    }
    const event: TenantEvent = { type: 'tier.set', ...occurrence(services, call), tier };
    return sendToTenant(services, call, event, { tenant_id: id, tier });
  },
});

/** The time and the principal of an event. */
const occurrence = ({ clock }: Pick<Services, 'clock'>, { caller }: Pick<Call<unknown>, 'caller'>) => ({
  at: clock.now(),
  by: caller.principal,
});

/** Sends an event to a tenant. A repeat is not an error. */
async function sendToTenant<Body>(
  services: Pick<Services, 'actors'>,
  { input, idempotent }: Pick<Call<{ id: string }>, 'input' | 'idempotent'>,
  event: MachineEvent,
  body: Body,
) {
  const ref = { kind: 'tenant', id: input.id } as const;
  if ((await services.actors.read(ref)) === null) return notFound('tenant');
  const reply = await sendToActor(services, ref, event, () => idempotent?.toRow({ body }), { allowNoOp: true });
  return reply.ok ? done({ body }) : reply;
}

const flag = z.enum(flagNames).meta({ id: 'Flag' });

export const listFlags = operation({
  ...operatorOnly,
  name: 'listFlags',
  summary: 'Show the system flags',
  input: z.strictObject({}),
  output: z.object({ flags: z.record(z.enum(flagNames), z.boolean()) }),
  changes: false,
  needs: ['flags'],
  run: async ({ flags }) => done({ body: { flags: { ...flags() } } }),
});

export const setFlag = operation({
  ...operatorChange,
  name: 'setFlag',
  summary: 'Set or clear a system flag',
  input: z.strictObject({ flag: flag.meta({ noun: 'flag' }), state: z.boolean() }),
  output: z.object({ flag, state: z.boolean() }),
  refuses: ['NOT_FOUND'],
  example: { input: { state: true }, output: { flag: 'maintenance_mode', state: true } },
  needs: ['log', 'setFlag'],
  async run({ setFlag, log }, { input, caller, idempotent }) {
    await setFlag(input.flag, input.state, idempotent?.toRow({ body: input }));
    log.warn({ ...input, user_id: caller.principal.id, request_id: caller.requestId }, 'system flag changed');
    return done({ body: input });
  },
});
