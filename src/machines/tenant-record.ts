import { z } from 'zod';
import { iso } from '../domain/iso-time.ts';
import { confirmers, DEFAULT_AGENT_CONFIRM_BY, type EarlierRules } from '../domain/policy.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { JsonObject } from '../domain/values.ts';
import type { TenantColumns } from './actor-columns.ts';
import { changeIn } from './change-note.ts';
import {
  assertEmpty,
  type JournalNote,
  type MachineDefinition,
  type MachineEvent,
  type Snapshot,
} from './definition.ts';
import { count, epochMs, storedForm } from './stored-schemas.ts';
import { tenantMachine } from './tenant.ts';
import type { TenantContext, TenantEvent } from './tenant-types.ts';

// Stored form, journal entries and admin view of a tenant.

/** False for both functions if this build does not know the stored state. */
export const isActiveSnapshot = ({ value }: Pick<Snapshot, 'value'>): boolean => value === 'active';
export const isSuspendedSnapshot = ({ value }: Pick<Snapshot, 'value'>): boolean => value === 'suspended';

const stored = storedForm<TenantContext>()(
  {
    id: uuid,
    name: z.string(),
    slug: z.string(),
    tier: z.string(),
    policy: z.strictObject({
      confirm_by: z.enum(confirmers),
      agent_confirm_by: z.enum(confirmers).exactOptional(),
      confirm_ttl_s: count,
    }),
    earlierRules: z
      .array(
        z.strictObject({
          confirm_by: z.array(z.enum(confirmers)).readonly(),
          agent_confirm_by: z.array(z.enum(confirmers)).readonly(),
          confirm_ttl_s: count,
          until: epochMs,
        }),
      )
      .readonly()
      .exactOptional(),
    createdAt: epochMs,
    suspensionNotice: z.string().exactOptional(),
  },
  {},
);

function note(event: TenantEvent, after: TenantContext): JsonObject {
  switch (event.type) {
    case 'register':
      return { name: event.tenant.name, slug: event.tenant.slug, tier: event.tenant.tier, owner_id: event.ownerId };
    case 'tier.set':
      return { tier: event.tier };
    case 'policy.set':
      return { policy: { ...after.fixed.policy }, ...changeIn(event) };
    case 'suspend':
      return {
        ...(event.reason !== undefined && { reason: event.reason }),
        ...(event.notice !== undefined && { notice: event.notice }),
      };
    case 'resume':
      return event.reason === undefined ? {} : { reason: event.reason };
  }
}

function journal(
  event: MachineEvent,
  before: Snapshot<TenantContext> | null,
  after: Snapshot<TenantContext>,
): JournalNote | null {
  return before === after ? null : { data: note(event as TenantEvent, after.context) };
}

const toAdminRules = ({ confirm_by, agent_confirm_by, confirm_ttl_s, until }: EarlierRules): JsonObject => ({
  ...{ confirm_by: [...confirm_by], agent_confirm_by: [...agent_confirm_by], confirm_ttl_s, until: iso(until) },
});

export const tenantDefinition: MachineDefinition<TenantContext, TenantColumns> = {
  kind: 'tenant',
  version: 1,
  machine: tenantMachine,
  tenantOf: (context) => context.fixed.id,
  toStored: stored.write,
  fromStored: stored.read,
  storedSchema: stored.schema,
  columns: (snapshot): TenantColumns => ({
    name: snapshot.context.fixed.name,
    slug: snapshot.context.fixed.slug,
    suspended: isSuspendedSnapshot(snapshot),
    created_at: snapshot.context.fixed.createdAt,
  }),
  journal,
  canPassivate: () => false,
  isTransient: () => false,
  toAdminView({ fixed, live }) {
    const { id, name, slug, tier, policy, earlierRules = [], createdAt, suspensionNotice, ...otherFixed } = fixed;
    assertEmpty(otherFixed, live);
    return {
      ...{ id, name, slug, tier, created_at: iso(createdAt) },
      policy: {
        confirm_by: policy.confirm_by,
        agent_confirm_by: policy.agent_confirm_by ?? DEFAULT_AGENT_CONFIRM_BY,
        confirm_ttl_s: policy.confirm_ttl_s,
      },
      ...(earlierRules.length > 0 && { earlier_rules: earlierRules.map(toAdminRules) }),
      ...(suspensionNotice !== undefined && { suspension_notice: suspensionNotice }),
    };
  },
};
