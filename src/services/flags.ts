import { setTimeout as pause } from 'node:timers/promises';
import type { AdministrationStore } from '../store/contract/administration.ts';
import { CommitUnknown, type IdempotencyRow, StoreUnavailable } from '../store/contract.ts';
import { Locks } from './locks.ts';

export const flagNames = ['maintenance_mode', 'registration_lock', 'commands_disabled', 'cognition_disabled'] as const;
export type Flag = (typeof flagNames)[number];

/** The system's flags, kept in memory because every change of anything asks for them. */
export interface Flags {
  current(): Readonly<Record<Flag, boolean>>;
  set(flag: Flag, state: boolean, also?: IdempotencyRow): Promise<void>;
  /** Reads the stored flags again: an operator's SQL, or another process, may have changed one. */
  refresh(): Promise<void>;
  /** Called with each change; must not throw. */
  subscribe(listener: (flag: Flag, state: boolean) => void): void;
}

const RETRY_MS = 500;

export async function loadFlags(store: AdministrationStore): Promise<Flags> {
  const stored = await store.flags();
  let flags = Object.fromEntries(flagNames.map((name) => [name, stored[name] === true])) as Record<Flag, boolean>;
  const locks = new Locks();
  const listeners: ((flag: Flag, state: boolean) => void)[] = [];

  function become(flag: Flag, state: boolean): void {
    if (flags[flag] === state) return;
    flags = { ...flags, [flag]: state };
    for (const listener of listeners) listener(flag, state);
  }

  /** Asks until the store answers. */
  async function kept(flag: Flag): Promise<boolean> {
    for (;;) {
      try {
        return (await store.flags())[flag] === true;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        await pause(RETRY_MS, undefined, { ref: false });
      }
    }
  }

  return {
    current: () => flags,
    subscribe: (listener) => void listeners.push(listener),
    refresh: async () => {
      await Promise.all(
        flagNames.map((flag) => locks.exclusive(flag, async () => become(flag, (await store.flags())[flag] === true))),
      );
    },
    // In the order of the asking, so that memory and store agree on what was last.
    set: (flag, state, also) =>
      locks.exclusive(flag, async () => {
        try {
          await store.setFlag(flag, state, also);
          become(flag, state);
        } catch (error) {
          // Who is told to look whether it was done must find here what the next process will find.
          if (error instanceof CommitUnknown) {
            become(flag, await kept(flag));
          }
          throw error;
        }
      }),
  };
}
