import type { ActorCommit, CommitOptions } from '../../src/store/contract.ts';

/** The arguments of one `commit` of an actor store. */
export interface CommittedBatch extends Required<CommitOptions> {
  actors: readonly ActorCommit[];
}

export const toCommittedBatch = (
  actors: readonly ActorCommit[],
  { delivered = [], atomic = false }: CommitOptions = {},
): CommittedBatch => ({ actors, delivered, atomic });
