import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Interest } from '../shared/live/interest.ts';
import type { Update } from '../shared/live/update.ts';
import type { Snapshot } from './snapshots.ts';

/** What is told at one path. How clients get in, are looked at and are written to is the same for all. */
export interface Stream extends SizeReporter {
  path: `/ws/${string}`;
  /** From the query; unknown parameters are not looked at. */
  read(query: URLSearchParams): Outcome<Interest>;
  /** Begins to tell what happens; called while there is anybody to hear it. Answers how to end it. */
  listen(tell: (update: Update) => void): () => void;
  /** What a client begins with, read after this call; null where it begins with nothing. */
  snapshot(tenantId: Uuid, interest: Interest): Promise<Snapshot> | null;
}
