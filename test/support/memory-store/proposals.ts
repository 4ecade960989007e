import type { Proposal } from '../../../src/domain/proposal.ts';
import type { ProposalStore } from '../../../src/store/contract/proposals.ts';
import { bigint, type Columns, jsonb, nullable, refuse, rowOf, text, uuid } from './columns.ts';
import { putIdempotency } from './idempotency.ts';
import { newestFirst, oldestFirst } from './keyset-pagination.ts';
import { isSuspended } from './plans.ts';
import type { Session } from './session.ts';

const columns: Columns<Proposal> = {
  ...{ id: uuid, tenantId: uuid, deviceId: uuid, homeId: nullable(uuid), data: jsonb, note: nullable(text) },
  ...{ askedBy: jsonb, status: text, reason: nullable(text), steps: jsonb, phase: text, planId: nullable(uuid) },
  ...{ createdAt: bigint, spokenAt: nullable(bigint) },
};

const isOpen = ({ status, phase }: Proposal): boolean => status === 'pending' && phase !== 'done';
const place = (one: Proposal) => one;

export const proposalStore = (session: Session): ProposalStore => ({
  insert: (proposal, mostOpen, givenUp, also) =>
    session.write('proposals.insert', [proposal, mostOpen, givenUp, also], (tables, given, most, reason, also) => {
      const row = rowOf(columns, given);
      if (tables.proposals.has(row.id)) refuse('23505', 'duplicate key value violates "proposals_pkey"');
      const open = tables.proposals.where((one) => one.tenantId === row.tenantId && isOpen(one));
      const beyond = newestFirst(open, place, open.length).items.slice(Math.max(0, most - 1));
      for (const one of beyond) tables.proposals.set(one.id, { ...one, phase: 'done', reason, steps: [] });
      tables.proposals.set(row.id, row);
      putIdempotency(tables, also);
      return beyond.map(({ id }) => id);
    }),

  find: (id) => session.read('proposals.find', [id], (tables, id) => tables.proposals.get(id) ?? null),

  list: (tenantId, limit, after) =>
    session.read('proposals.list', [tenantId, limit, after], (tables, tenantId, limit, after) =>
      newestFirst(
        tables.proposals.where((one) => one.tenantId === tenantId),
        place,
        limit,
        after,
      ),
    ),

  change: (id, changes, also) =>
    session.write('proposals.change', [id, changes, also], (tables, id, changes, also) => {
      const one = tables.proposals.get(id);
      const { status, reason, steps, phase, spokenAt } = changes;
      if (one?.status !== 'pending' || (phase !== undefined && one.phase === 'done')) return null;
      const changed = rowOf(columns, {
        ...one,
        status: status ?? one.status,
        reason: reason ?? one.reason,
        steps: steps ?? one.steps,
        phase: phase ?? one.phase,
        spokenAt: spokenAt ?? one.spokenAt,
      });
      tables.proposals.set(id, changed);
      putIdempotency(tables, also);
      return changed;
    }),

  open: (since, limit, after, tenantId) =>
    session.read('proposals.open', [since, limit, after, tenantId], (tables, since, limit, after, tenantId) => {
      const waiting = tables.proposals.where(
        (one) =>
          isOpen(one) &&
          one.createdAt > since &&
          (tenantId === undefined ? !isSuspended(tables, one.tenantId) : one.tenantId === tenantId),
      );
      return oldestFirst(waiting, place, limit, after);
    }),
});
