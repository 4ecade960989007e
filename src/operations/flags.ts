import type { AdministrationStore } from '../store/contract/administration.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import { Locks } from './locks.ts';
import { type Flag, flagNames } from './operation.ts';

/** The system's flags, kept in memory because every change of anything asks for them. */
export interface Flags {
  current(): Readonly<Record<Flag, boolean>>;
  set(flag: Flag, state: boolean, also?: IdempotencyRow): Promise<void>;
}

export const isFlag = (name: string): name is Flag => (flagNames as readonly string[]).includes(name);

export async function loadFlags(store: AdministrationStore): Promise<Flags> {
  const stored = await store.flags();
  let flags = Object.fromEntries(flagNames.map((name) => [name, stored[name] === true])) as Record<Flag, boolean>;
  const locks = new Locks();
  return {
    current: () => flags,
    // In the order of the asking, so that memory and store agree on what was last.
    set: (flag, state, also) =>
      locks.alone(flag, async () => {
        await store.setFlag(flag, state, also);
        flags = { ...flags, [flag]: state };
      }),
  };
}
