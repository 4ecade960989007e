import type { IdentityStore } from '../store/contract.ts';
import { type Flag, flagNames } from './operation.ts';

/** The system's flags, kept in memory because every change of anything asks for them. */
export interface Flags {
  current(): Readonly<Record<Flag, boolean>>;
  set(flag: Flag, state: boolean): Promise<void>;
}

export const isFlag = (name: string): name is Flag => (flagNames as readonly string[]).includes(name);

export async function loadFlags(store: IdentityStore): Promise<Flags> {
  const stored = await store.flags();
  let flags = Object.fromEntries(flagNames.map((name) => [name, stored[name] === true])) as Record<Flag, boolean>;
  return {
    current: () => flags,
    async set(flag, state) {
      await store.setFlag(flag, state);
      flags = { ...flags, [flag]: state };
    },
  };
}
