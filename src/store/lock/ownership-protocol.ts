import type { Uuid } from '../../domain/values.ts';
import type { LockSession } from './lock-session.ts';
import type { NodeInfo } from './node-registration.ts';
import type { TerminationOptions } from './stale-sessions.ts';

/** How nodes share the database: one at a time, or several that each own a part of the shards. */
export interface OwnershipProtocol {
  /** Whether a node owns all shards as long as it is active. */
  allShards: boolean;
  /** SQL that tries to take the lock, of type boolean. */
  lock: string;
  /** SQL that is false if a connection pooler switched to another session; `$1` is the node. */
  held: string;
  /**
   * Called with the lock held: registers the node under a new id, and fences those that it replaces. Returns the fencing
   * token of the lease.
   */
  register(session: LockSession, node: Uuid, info: NodeInfo, options: TerminationOptions): Promise<number>;
  /** Called before the lock is released by a node without other database sessions: others need not fence it. */
  leave(session: LockSession, node: Uuid): Promise<void>;
}
