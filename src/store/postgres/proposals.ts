import type { Proposal } from '../../domain/proposal.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { ProposalStore } from '../contract/proposals.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { ascendingStart, descendingStart, type ListStatement, pageOf, readPage } from './keyset-pagination.ts';

type Row = Omit<Proposal, 'tenantId' | 'deviceId' | 'homeId' | 'askedBy' | 'planId' | 'createdAt' | 'spokenAt'> & {
  tenant_id: Uuid;
  device_id: Uuid;
  home_id: Uuid | null;
  asked_by: Proposal['askedBy'];
  plan_id: Uuid | null;
  created_at: EpochMs;
  spoken_at: EpochMs | null;
};

const columns = `id, tenant_id, device_id, home_id, data, note, asked_by, status, reason, steps, phase, plan_id, created_at,
  spoken_at, memories`;
const isOpen = `status = 'pending' and phase <> 'done'`;

const proposalOf = ({
  tenant_id,
  device_id,
  home_id,
  asked_by,
  plan_id,
  created_at,
  spoken_at,
  ...rest
}: Row): Proposal => ({
  ...rest,
  ...{ tenantId: tenant_id, deviceId: device_id, homeId: home_id, askedBy: asked_by, planId: plan_id },
  ...{ createdAt: created_at, spokenAt: spoken_at },
});

const position = ({ createdAt, id }: Proposal) => ({ createdAt, id });

export const proposalStore = (database: Database): ProposalStore => ({
  async insert(one, mostOpen, givenUp, idempotency) {
    const { id, tenantId, deviceId, homeId, data, note, askedBy, status, reason, steps, memories, phase, planId } = one;
    const rows = await database.write<{ id: Uuid }>({
      name: 'proposal_insert',
      scope: idempotentScope(tenantId, idempotency),
      text: `with made as (
          insert into proposals (${columns})
          values ($1, $2, $3, $4, $5::jsonb, $6, $7::jsonb, $8, $9, $10::jsonb, $11, $12, $13, $14, $18::jsonb) returning id),
        given_up as (
          update proposals set phase = 'done', reason = $16, steps = '[]'::jsonb where id in (
            select id from proposals where tenant_id = $2 and ${isOpen}
            order by created_at desc, id desc offset $15::bigint - 1) returning id),
        ${idempotencyCte(17, 'made')}
        select id from given_up`,
      values: [
        ...[id, tenantId, deviceId, homeId, JSON.stringify(data), note, JSON.stringify(askedBy), status, reason],
        ...[
          JSON.stringify(steps),
          phase,
          planId,
          one.createdAt,
          one.spokenAt,
          mostOpen,
          givenUp,
          idempotencyParameter(idempotency),
          memories && JSON.stringify(memories),
        ],
      ],
    });
    return rows.map((row) => row.id);
  },

  async find(id) {
    const [row] = await database.read<Row>({
      name: 'proposal',
      text: `select ${columns} from proposals where id = $1`,
      values: [id],
    });
    return row ? proposalOf(row) : null;
  },

  async list(tenantId, limit, after) {
    const statement: ListStatement = {
      name: 'proposals',
      scope: { tenantId },
      text: `select ${columns} from proposals where tenant_id = $1 and (created_at, id) < ($2, $3)
        order by created_at desc, id desc limit $4`,
      values: (after, rows) => [tenantId, ...descendingStart(after), rows],
    };
    return readPage(database, statement, { after, limit, of: proposalOf, position });
  },

  async change(id, { status, reason, steps, memories, phase, spokenAt }, idempotency) {
    const [row] = await database.write<Row>({
      name: 'proposal_change',
      text: `with changed as (
          update proposals set status = coalesce($2, status), reason = coalesce($3, reason),
            steps = coalesce($4::jsonb, steps), phase = coalesce($5, phase), spoken_at = coalesce($6::bigint, spoken_at),
            memories = coalesce($8::jsonb, memories)
          where id = $1 and status = 'pending' and ($5::text is null or phase <> 'done') returning ${columns}),
        ${idempotencyCte(7, 'changed')}
        select * from changed`,
      values: [
        ...[id, status ?? null, reason ?? null, steps === undefined ? null : JSON.stringify(steps), phase ?? null],
        ...[spokenAt ?? null, idempotencyParameter(idempotency), memories ? JSON.stringify(memories) : null],
      ],
    });
    return row ? proposalOf(row) : null;
  },

  async open(since, limit, after, tenantId) {
    const rows = await database.read<Row>({
      name: tenantId === undefined ? 'proposals_open' : 'proposals_open_of_tenant',
      ...(tenantId !== undefined && { scope: { tenantId } }),
      text: `select ${columns} from proposals p
        where ${isOpen} and created_at > $1 and (created_at, id) > ($2, $3) and case when $4::uuid is null
          then not exists (select from tenants t where t.id = p.tenant_id and t.suspended) else tenant_id = $4 end
        order by created_at, id limit $5`,
      values: [since, ...ascendingStart(after), tenantId ?? null, limit + 1],
    });
    return pageOf(rows.map(proposalOf), limit, position);
  },
});
