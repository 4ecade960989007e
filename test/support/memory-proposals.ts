import type { Proposal } from '../../src/domain/proposal.ts';
import type { EpochMs, Uuid } from '../../src/domain/values.ts';
import type { ProposalStore } from '../../src/store/contract/proposals.ts';
import type { IdempotencyRow, Page, Position } from '../../src/store/contract.ts';
import { pageOf } from './memory-pages.ts';

/** What observations led to, in a map. */
export class MemoryProposals implements ProposalStore {
  readonly held = new Map<Uuid, Proposal>();
  private readonly keep: (row: IdempotencyRow | null | undefined) => void;

  constructor(keep: (row: IdempotencyRow | null | undefined) => void) {
    this.keep = keep;
  }

  /** As it joins the commit of its plan. */
  accept(id: Uuid, planId: Uuid): void {
    const one = this.held.get(id);
    if (one?.status !== 'pending') throw new Error('the proposal is not pending any more');
    this.held.set(id, { ...one, status: 'accepted', planId });
  }

  async insert(proposal: Proposal, mostOpen: number, givenUp: string, also?: IdempotencyRow | null): Promise<Uuid[]> {
    const open = [...this.held.values()].filter((one) => one.tenantId === proposal.tenantId && isOpen(one));
    const left = open.reverse().slice(mostOpen - 1);
    for (const one of left) this.held.set(one.id, { ...one, phase: 'done', reason: givenUp, steps: [] });
    this.held.set(proposal.id, proposal);
    this.keep(also);
    return left.map(({ id }) => id);
  }

  async find(id: Uuid): Promise<Proposal | null> {
    return this.held.get(id) ?? null;
  }

  async list(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Proposal>> {
    const own = [...this.held.values()].filter((one) => one.tenantId === tenantId);
    return pageOf(own, (one) => one, limit, after);
  }

  async change(id: Uuid, changes: Partial<Proposal>, also?: IdempotencyRow | null): Promise<Proposal | null> {
    const one = this.held.get(id);
    if (one?.status !== 'pending' || (changes.phase !== undefined && one.phase === 'done')) return null;
    const changed = { ...one, ...changes };
    this.held.set(id, changed);
    this.keep(also);
    return changed;
  }

  async open(since: EpochMs, limit: number, after?: Position, tenantId?: Uuid): Promise<Page<Proposal>> {
    const open = [...this.held.values()].filter(
      (one) => isOpen(one) && one.createdAt > since && (tenantId === undefined || one.tenantId === tenantId),
    );
    return oldestFirst(open, limit, after);
  }
}

const isOpen = ({ status, phase }: Proposal): boolean => status === 'pending' && phase !== 'done';

const place = ({ createdAt, id }: Position): string => `${String(createdAt).padStart(16, '0')} ${id}`;

/** A page of what a store in memory holds, oldest first. */
export function oldestFirst<T extends Position>(all: readonly T[], limit: number, after?: Position): Page<T> {
  const rest = all
    .filter((one) => after === undefined || place(one) > place(after))
    .sort((a, b) => (place(a) < place(b) ? -1 : 1));
  const items = rest.slice(0, limit);
  const positions = items.map(({ createdAt, id }) => ({ createdAt, id }));
  return { items, next: rest.length > limit ? (positions.at(-1) ?? null) : null, places: () => positions };
}
