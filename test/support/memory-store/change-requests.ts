import type { ChangeRequest } from '../../../src/domain/change-request.ts';
import type { ChangeRequestStore } from '../../../src/store/contract/change-requests.ts';
import { bigint, type Columns, jsonb, nullable, refuse, rowOf, text, uuid } from './columns.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const columns: Columns<ChangeRequest> = {
  ...{
    id: uuid,
    tenantId: uuid,
    operation: text,
    subject: text,
    input: jsonb,
    base: text,
    preview: jsonb,
    digest: text,
  },
  ...{ tokenHash: text, requestedBy: jsonb, createdAt: bigint, expiresAt: bigint, status: text },
  ...{ decidedBy: nullable(jsonb), decidedAt: nullable(bigint), reason: nullable(text) },
};

const isWaiting = ({ status }: ChangeRequest): boolean => status === 'awaiting_confirmation';

export const changeRequestStore = (session: Session): ChangeRequestStore => ({
  insert: (request, mostWaiting, idempotency) =>
    session.write('changeRequests.insert', [request, mostWaiting, idempotency], (tables, input, most, idempotency) => {
      const row = rowOf(columns, input);
      if (tables.changeRequests.has(row.id)) refuse('23505', 'duplicate key value violates "change_requests_pkey"');
      const waiting = tables.changeRequests.where(
        (one) => one.tenantId === row.tenantId && isWaiting(one) && one.expiresAt > row.createdAt,
      );
      if (waiting.length >= most) return false;
      tables.changeRequests.set(row.id, row);
      putIdempotency(tables, idempotency);
      return true;
    }),

  find: (id) => session.read('changeRequests.find', [id], (tables, id) => tables.changeRequests.get(id) ?? null),

  list: (tenantId, filter, limit, after) =>
    session.read('changeRequests.list', [tenantId, filter, limit, after], (tables, tenantId, filter, limit, after) =>
      newestFirst(
        tables.changeRequests.where(
          (one) =>
            one.tenantId === tenantId &&
            (filter.waitingAt === undefined || (isWaiting(one) && one.expiresAt > filter.waitingAt)),
        ),
        (one) => one,
        limit,
        after,
      ),
    ),

  end: (id, end, idempotency) =>
    session.write('changeRequests.end', [id, end, idempotency], (tables, id, end, idempotency) => {
      const one = tables.changeRequests.get(id);
      if (one === undefined || !isWaiting(one)) return null;
      const ended = rowOf(columns, { ...one, ...end });
      tables.changeRequests.set(id, ended);
      putIdempotency(tables, idempotency);
      return ended;
    }),
});
