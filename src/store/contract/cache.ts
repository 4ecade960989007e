import type { SizeReporter } from '../../domain/collection-sizes.ts';

/**
 * Short-lived entries, shared by all processes of this deployment; losing them loses no state. In Redis, or in the
 * database of the store; the latter throws `StoreUnavailable` or `CommitUnknown` while the database does not answer.
 */
export interface Cache extends SizeReporter {
  get(key: string): Promise<string | null>;
  /** `ttlMs`: time to live in milliseconds. */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  /** Sets the value if the key is free; false if it is not. */
  add(key: string, value: string, ttlMs: number): Promise<boolean>;
  /** Reads and removes atomically. */
  take(key: string): Promise<string | null>;
  delete(key: string): Promise<void>;
  /**
   * Delivers to all active processes of this deployment, including this one, in one order: a process that receives its
   * own message has received what was published before it. Rejects if the message may not be delivered.
   */
  publish(channel: string, message: string): Promise<void>;
  /**
   * Returns the function that ends the subscription. `interrupted` is called when the connection is lost: messages
   * until the next connection are lost too.
   */
  subscribe(
    channel: string,
    listener: (message: string) => void,
    interrupted?: () => void,
  ): Promise<() => Promise<void>>;
  /** False while its server or database is unavailable; Redis is then replaced by the entries of this process. */
  healthy(): boolean;
  /** False while entries that other processes have made, or this one before its start, may be missing. */
  isComplete(): boolean;
  close(): Promise<void>;
}
