import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Subscription } from '../shared/live/subscription.ts';
import type { Update } from '../shared/live/update.ts';
import type { Snapshot } from './snapshots.ts';

/** What is told at one path. How clients get in, are looked at and are written to is the same for all. */
export interface UpdateStream extends SizeReporter {
  path: `/ws/${string}`;
  /** From the query; unknown parameters are not looked at. */
  parseQuery(query: URLSearchParams): Outcome<Subscription>;
  /** Begins to tell what happens; called while there is anybody to hear it. Answers how to end it. */
  subscribe(tell: (update: Update) => void): () => void;
  /** What a client begins with, read after this call; null where it begins with nothing. */
  snapshot(tenantId: Uuid, interest: Subscription): Promise<Snapshot> | null;
}
