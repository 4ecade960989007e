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
  ...{ createdAt: bigint, spokenAt: nullable(bigint), memories: nullable(jsonb) },
};

const isOpen = ({ status, phase }: Proposal): boolean => status === 'pending' && phase !== 'done';
const positionOf = (one: Proposal) => one;

export const proposalStore = (session: Session): ProposalStore => ({
  insert: (proposal, mostOpen, givenUp, idempotency) =>
    session.write(
      'proposals.insert',
      [proposal, mostOpen, givenUp, idempotency],
      (tables, input, most, reason, idempotency) => {
        const row = rowOf(columns, input);
        if (tables.proposals.has(row.id)) refuse('23505', 'duplicate key value violates "proposals_pkey"');
        const open = tables.proposals.where((one) => one.tenantId === row.tenantId && isOpen(one));
        const givenUp = newestFirst(open, positionOf, open.length).items.slice(Math.max(0, most - 1));
        for (const one of givenUp) tables.proposals.set(one.id, { ...one, phase: 'done', reason, steps: [] });
        tables.proposals.set(row.id, row);
        putIdempotency(tables, idempotency);
        return givenUp.map(({ id }) => id);
      },
    ),

  find: (id) => session.read('proposals.find', [id], (tables, id) => tables.proposals.get(id) ?? null),

  list: (tenantId, limit, after) =>
    session.read('proposals.list', [tenantId, limit, after], (tables, tenantId, limit, after) =>
      newestFirst(
        tables.proposals.where((one) => one.tenantId === tenantId),
        positionOf,
        limit,
        after,
      ),
    ),

  change: (id, changes, idempotency) =>
    session.write('proposals.change', [id, changes, idempotency], (tables, id, changes, idempotency) => {
      const one = tables.proposals.get(id);
      const { status, reason, steps, memories, phase, spokenAt } = changes;
      if (one?.status !== 'pending' || (phase !== undefined && one.phase === 'done')) return null;
      const changed = rowOf(columns, {
        ...one,
        status: status ?? one.status,
        reason: reason ?? one.reason,
        steps: steps ?? one.steps,
        memories: memories ?? one.memories,
        phase: phase ?? one.phase,
        spokenAt: spokenAt ?? one.spokenAt,
      });
      tables.proposals.set(id, changed);
      putIdempotency(tables, idempotency);
      return changed;
    }),

  open: (since, limit, after, tenantId) =>
    session.read('proposals.open', [since, limit, after, tenantId], (tables, since, limit, after, tenantId) => {
      const open = tables.proposals.where(
        (one) =>
          isOpen(one) &&
          one.createdAt > since &&
          (tenantId === undefined ? !isSuspended(tables, one.tenantId) : one.tenantId === tenantId),
      );
      return oldestFirst(open, positionOf, limit, after);
    }),
});
