import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Subscription } from '../shared/live/subscription.ts';
import type { Update } from '../shared/live/update.ts';
import type { UpdateSnapshot } from './snapshots.ts';

/** The updates sent at one path. Authentication, health checks and writing are the same for all streams. */
export interface UpdateStream extends SizeReporter {
  path: `/ws/${string}`;
  /** Parses the query; unknown parameters are ignored. */
  parseQuery(query: URLSearchParams): Outcome<Subscription>;
  /** Starts publishing updates, while there are clients. Returns how to stop. */
  subscribe(publish: (update: Update) => void): () => void;
  /** The client's initial updates, read after this call; null without a snapshot. */
  snapshot(tenantId: Uuid, subscription: Subscription): Promise<UpdateSnapshot> | null;
}
