import type { Uuid } from '../../../src/domain/values.ts';
import type { ActorKind, ActorRef } from '../../../src/machines/outputs.ts';
import { DataRefused, type Store } from '../../../src/store/contract.ts';
import { fc } from '../properties.ts';

/*
 * Calls of a store, to be made on two of them with the same arguments. A world has a few ids of each sort, so that calls
 * meet each other's rows.
 */

export const DAY = 86_400_000;

/** The ids that the calls of one run are about, and what is known of its actors. */
export class StoreModel {
  readonly #run: string;
  /** By `kind:id`; absent where there is no row. */
  readonly versions = new Map<string, number>();

  constructor(run: number) {
    this.#run = run.toString(16).padStart(8, '0');
  }

  /** The nth id of a sort: a UUID of version 7, made `n` days after the epoch began. */
  id(sort: string, n: number): Uuid {
    const time = (n * DAY).toString(16).padStart(12, '0');
    const tail = sort.charCodeAt(0).toString(16).padStart(2, '0') + sort.charCodeAt(1).toString(16).padStart(2, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${this.#run}${tail}`;
  }

  name(sort: string, n: number): string {
    return `${sort}-${this.#run}-${n}`;
  }

  /** What differs between two runs alone is a name of this run's. */
  get run(): string {
    return this.#run;
  }
}

export const TENANTS = 2;
export const ids = (world: StoreModel, sort: string, count: number): Uuid[] =>
  Array.from({ length: count }, (_, n) => world.id(sort, n));

export const sizes = { device: 4, command: 5, plan: 3, tenant: TENANTS } satisfies Record<ActorKind, number>;
export const refsOf = (world: StoreModel, kind: ActorKind): ActorRef[] =>
  ids(world, kind, sizes[kind]).map((id) => ({ kind, id }));

/** A call with its arguments: the same on each store. */
export interface Call {
  name: string;
  run(store: Store): Promise<unknown>;
}
/** Decides on the arguments, knowing the world as the calls before left it. */
export type CallFactory = (world: StoreModel) => Call;

export const weighted = (arbitrary: fc.Arbitrary<CallFactory>, weight: number): fc.WeightedArbitrary<CallFactory> => ({
  arbitrary,
  weight,
});

export const text = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'Lamp', '', 'ü 𝄞', `'";--`, '\\u0000', 'null', 'x'.repeat(300)), weight: 20 },
  { arbitrary: fc.constantFrom('a\0b', 'a\ud800'), weight: 1 },
);
/** A moment near the days on which the ids were made. */
export const moment = fc.integer({ min: 0, max: 6 * 4 }).map((n) => (n * DAY) / 4);
export const tenant = fc.nat(TENANTS - 1);

/**
 * What a call came to: its answer, or that its data was refused. Where several things are wrong with it, which one is told is
 * left open; the suites of each part ask for the SQLSTATE of one.
 */
export async function outcomeOf(call: Call, store: Store): Promise<unknown> {
  try {
    return { answer: comparable(await call.run(store)) };
  } catch (error) {
    if (error instanceof DataRefused) return { refused: true };
    throw error;
  }
}

/** Without what is no data, and with what is in any order in one. */
export function comparable(value: unknown): unknown {
  if (value instanceof Map) return comparable(Object.fromEntries([...value].sort()));
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const { positions, ...rest } = value as { positions?: () => unknown };
  const members = Object.entries(rest).map(([name, member]) => [name, comparable(member)]);
  return { ...Object.fromEntries(members), ...(typeof positions === 'function' && { positions: positions() }) };
}

/** For answers whose order the contract leaves open. */
export const sorted = async <T>(answer: Promise<readonly T[]>): Promise<T[]> =>
  [...(await answer)].sort((a, b) => (inOrder(a) < inOrder(b) ? -1 : 1));

const inOrder = (row: unknown): string =>
  typeof row === 'object' && row !== null ? JSON.stringify(Object.entries(row).sort()) : JSON.stringify(row);
