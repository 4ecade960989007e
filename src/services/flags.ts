import { setTimeout as pause } from 'node:timers/promises';
import type { AdministrationStore } from '../store/contract/administration.ts';
import { CommitUnknown, type IdempotencyRow, StoreUnavailable } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { KeyedLocks } from './keyed-locks.ts';

export const flagNames = ['maintenance_mode', 'registration_lock', 'commands_disabled', 'cognition_disabled'] as const;
export type Flag = (typeof flagNames)[number];

/** The system flags, kept in memory because every changing operation checks them. */
export interface Flags {
  current(): Readonly<Record<Flag, boolean>>;
  set(flag: Flag, state: boolean, also?: IdempotencyRow): Promise<void>;
  /** Reloads the stored flags: an operator's SQL or another process may have changed one. */
  refresh(): Promise<void>;
  /** Calls `listener` with each change, until the returned function is called; it must not throw. */
  subscribe(listener: (flag: Flag, state: boolean) => void): () => void;
}

const RETRY_MS = 500;

export async function loadFlags(
  store: AdministrationStore,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
): Promise<Flags> {
  const stored = await store.flags();
  let flags = Object.fromEntries(flagNames.map((name) => [name, stored[name] === true])) as Record<Flag, boolean>;
  const locks = new KeyedLocks();
  const listeners = new Set<(flag: Flag, state: boolean) => void>();

  function apply(flag: Flag, state: boolean): void {
    if (flags[flag] === state) return;
    flags = { ...flags, [flag]: state };
    for (const listener of listeners) listener(flag, state);
  }

  /** Retries until the store answers. */
  async function readUntilAvailable(flag: Flag): Promise<boolean> {
    for (;;) {
      try {
        return (await store.flags())[flag] === true;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        await pause(RETRY_MS, undefined, { ref: false });
      }
    }
  }

  async function refresh(): Promise<void> {
    await Promise.all(
      flagNames.map((flag) => locks.exclusive(flag, async () => apply(flag, (await store.flags())[flag] === true))),
    );
  }

  /** True while this process publishes its change. */
  let publishing = false;
  function publish(): void {
    publishing = true;
    invalidations.publish({ about: 'flags' });
    publishing = false;
  }
  invalidations.subscribe((item) => {
    // A failed refresh is repeated by the periodic one.
    if (item.about === 'flags' && !publishing) refresh().catch(() => {});
  });
  invalidations.subscribeMissed(refresh);

  return {
    current: () => flags,
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    refresh,
    // One at a time and in order, so that memory and store agree on the last value.
    set: (flag, state, also) =>
      locks.exclusive(flag, async () => {
        try {
          await store.setFlag(flag, state, also);
          apply(flag, state);
          publish();
        } catch (error) {
          // The caller checks whether the change was applied: memory must match the store.
          if (error instanceof CommitUnknown) {
            apply(flag, await readUntilAvailable(flag));
            publish();
          }
          throw error;
        }
      }),
  };
}
