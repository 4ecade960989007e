import { type ChangeRequest, isSameRequester, replacedByText } from '../../../src/domain/change-request.ts';
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
  insert: (request, limits, replacing, idempotency) =>
    session.write(
      'changeRequests.insert',
      [request, limits, replacing, idempotency],
      (tables, input, { own, all }, { by, replaces, expiredUntil = -Infinity }, idempotency) => {
        const row = rowOf(columns, input);
        const waiting = tables.changeRequests.where(
          (one) =>
            one.tenantId === row.tenantId &&
            isWaiting(one) &&
            one.expiresAt > row.createdAt &&
            one.createdAt > expiredUntil,
        );
        const isOwn = (one: ChangeRequest) => isSameRequester(one.requestedBy, row.requestedBy);
        const replaced = waiting.filter(
          (one) =>
            one.id === replaces || (one.operation === row.operation && one.subject === row.subject && isOwn(one)),
        );
        if (replaces !== undefined && !replaced.some(({ id }) => id === replaces)) return 'ended';
        if (replaced.length === 0 && waiting.filter(isOwn).length >= own) return 'own';
        if (replaced.length === 0 && waiting.length >= all) return 'all';
        if (tables.changeRequests.has(row.id)) refuse('23505', 'duplicate key value violates "change_requests_pkey"');
        const end = {
          status: 'outdated' as const,
          decidedBy: by,
          decidedAt: row.createdAt,
          reason: replacedByText(row),
        };
        for (const one of replaced) tables.changeRequests.set(one.id, rowOf(columns, { ...one, ...end }));
        tables.changeRequests.set(row.id, row);
        putIdempotency(tables, idempotency);
        return 'inserted';
      },
    ),

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
