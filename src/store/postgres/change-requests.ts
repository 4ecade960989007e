import { type ChangeRequest, replacedByText } from '../../domain/change-request.ts';
import { isPerson } from '../../domain/policy.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { ChangeRequestInsertion, ChangeRequestStore } from '../contract/change-requests.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface Row extends Pick<ChangeRequest, 'id' | 'operation' | 'subject' | 'input' | 'base' | 'preview' | 'digest'> {
  status: ChangeRequest['status'];
  reason: string | null;
  tenant_id: Uuid;
  token_hash: string;
  requested_by: ChangeRequest['requestedBy'];
  created_at: EpochMs;
  expires_at: EpochMs;
  decided_by: ChangeRequest['decidedBy'];
  decided_at: EpochMs | null;
}

const columns = `id, tenant_id, operation, subject, input, base, preview, digest, token_hash, requested_by, created_at,
  expires_at, status, decided_by, decided_at, reason`;
const isWaiting = `status = 'awaiting_confirmation'`;
/** `isSameRequester` of domain/change-request.ts; the parameters are those of the insertion. */
const isRequester = `(requested_by->>'id' = $22 and coalesce(requested_by->>'key', '') = $23 and
  ((requested_by->>'kind' = 'user' and requested_by->>'person' = 'true' and not requested_by ? 'key'
    and coalesce(requested_by->>'via', '') <> 'mcp') is true) = $24::boolean)`;

const requestOf = ({
  tenant_id,
  token_hash,
  requested_by,
  created_at,
  expires_at,
  decided_by,
  decided_at,
  ...rest
}: Row): ChangeRequest => ({
  ...rest,
  ...{ tenantId: tenant_id, tokenHash: token_hash, requestedBy: requested_by, createdAt: created_at },
  ...{ expiresAt: expires_at, decidedBy: decided_by, decidedAt: decided_at },
});

export const changeRequestStore = (database: Database): ChangeRequestStore => ({
  async insert(one, { own, all }, { by, replaces, expiredUntil }, idempotency) {
    const { requestedBy } = one;
    const rows = await database.write<{ result: ChangeRequestInsertion }>({
      name: 'change_request_insert',
      scope: idempotentScope(one.tenantId, idempotency),
      text: `with waiting as (
          select id, ${isRequester} as own,
            id = $17::uuid or operation = $3 and subject = $4 and ${isRequester} as replaced
          from change_requests where tenant_id = $2 and ${isWaiting} and expires_at > $11::bigint
            and ($26::bigint is null or created_at > $26)),
        checked as (
          select case
            when $17::uuid is not null and not coalesce(bool_or(id = $17), false) then 'ended'
            when bool_or(replaced) then 'inserted'
            when count(*) filter (where own) >= $18::bigint then 'own'
            when count(*) >= $19::bigint then 'all'
            else 'inserted' end as result
          from waiting),
        -- The request to replace may have ended since the snapshot: then nothing is made, and no other request ends.
        locked as (
          select id from change_requests where id = $17 and ${isWaiting} for update),
        ended as (
          update change_requests set status = 'outdated', decided_by = $20::jsonb, decided_at = $11, reason = $21
          where id in (select id from waiting where replaced) and ${isWaiting}
            and (select result from checked) = 'inserted' and ($17::uuid is null or exists (select from locked))
          returning id),
        made as (
          insert into change_requests (${columns})
          select $1::uuid, $2::uuid, $3, $4, $5::jsonb, $6, $7::jsonb, $8, $9, $10::jsonb, $11::bigint, $12::bigint, $13,
            $14::jsonb, $15::bigint, $16
          from checked where result = 'inserted' and ($17::uuid is null or exists (select from ended where id = $17))
          returning id),
        ${idempotencyCte(25, 'made')}
        select case when result = 'inserted' and not exists (select from made) then 'ended' else result end as result
        from checked`,
      values: [
        ...[one.id, one.tenantId, one.operation, one.subject, JSON.stringify(one.input), one.base],
        ...[JSON.stringify(one.preview), one.digest, one.tokenHash, JSON.stringify(requestedBy), one.createdAt],
        ...[one.expiresAt, one.status, one.decidedBy === null ? null : JSON.stringify(one.decidedBy), one.decidedAt],
        ...[one.reason, replaces ?? null, own, all, JSON.stringify(by), replacedByText(one)],
        ...[requestedBy.id, requestedBy.key ?? '', isPerson(requestedBy), idempotencyParameter(idempotency)],
        expiredUntil ?? null,
      ],
    });
    const [row] = rows;
    if (row === undefined) throw new Error('change_request_insert returned no row');
    return row.result;
  },

  async find(id) {
    const [row] = await database.read<Row>({
      name: 'change_request',
      text: `select ${columns} from change_requests where id = $1`,
      values: [id],
    });
    return row ? requestOf(row) : null;
  },

  async list(tenantId, { waitingAt }, limit, after) {
    const waiting = waitingAt === undefined ? '' : ` and ${isWaiting} and expires_at > $5`;
    const statement: ListStatement = {
      name: waitingAt === undefined ? 'change_requests' : 'change_requests_waiting',
      scope: { tenantId },
      text: `select ${columns} from change_requests where tenant_id = $1 and (created_at, id) < ($2, $3)${waiting}
        order by created_at desc, id desc limit $4`,
      values: (after, rows) => [
        tenantId,
        ...descendingStart(after),
        rows,
        ...(waitingAt === undefined ? [] : [waitingAt]),
      ],
    };
    const position = ({ createdAt, id }: ChangeRequest) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: requestOf, position });
  },

  async end(id, { status, decidedBy, decidedAt, reason }, idempotency) {
    const [row] = await database.write<Row>({
      name: 'change_request_end',
      text: `with ended as (
          update change_requests set status = $2, decided_by = $3::jsonb, decided_at = $4, reason = $5
          where id = $1 and ${isWaiting} returning ${columns}),
        ${idempotencyCte(6, 'ended')}
        select * from ended`,
      values: [id, status, JSON.stringify(decidedBy), decidedAt, reason, idempotencyParameter(idempotency)],
    });
    return row ? requestOf(row) : null;
  },
});
