import type { Uuid } from '../../../src/domain/values.ts';
import type { ActorKind, ActorRef } from '../../../src/machines/outputs.ts';
import { DataRefused, type Store } from '../../../src/store/contract.ts';
import { fc } from '../properties.ts';

/*
 * Calls of a store, to be made on two stores with the same arguments. A model has few ids of each sort, so that calls
 * affect each other's rows.
 */

export const DAY = 86_400_000;

/** The ids of one run's calls, and the known versions of its actors. */
export class StoreModel {
  readonly #run: string;
  /** By `kind:id`; absent if the row does not exist. */
  readonly versions = new Map<string, number>();

  constructor(run: number) {
    this.#run = run.toString(16).padStart(8, '0');
  }

  /** The nth id of a sort: a UUID version 7, created `n` days after the epoch. */
  id(sort: string, n: number): Uuid {
    const time = (n * DAY).toString(16).padStart(12, '0');
    const tail =
      sort.charCodeAt(0).toString(16).padStart(2, '0') + (sort.charCodeAt(1) + (n % 128)).toString(16).padStart(2, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${this.#run}${tail}`;
  }

  name(sort: string, n: number): string {
    return `${sort}-${this.#run}-${n}`;
  }

  /** Prefix of this run's names, which are all that differs between two runs. */
  get run(): string {
    return this.#run;
  }
}

export const TENANTS = 2;
export const ids = (model: StoreModel, sort: string, count: number): Uuid[] =>
  Array.from({ length: count }, (_, n) => model.id(sort, n));

export const sizes = { device: 4, command: 5, plan: 3, tenant: TENANTS } satisfies Record<ActorKind, number>;
export const refsOf = (model: StoreModel, kind: ActorKind): ActorRef[] =>
  ids(model, kind, sizes[kind]).map((id) => ({ kind, id }));

/** A call with its arguments, the same for each store. */
export interface Call {
  name: string;
  run(store: Store): Promise<unknown>;
}
/** Chooses the arguments, depending on the model after the previous calls. */
export type CallFactory = (model: StoreModel) => Call;

export const weighted = (arbitrary: fc.Arbitrary<CallFactory>, weight: number): fc.WeightedArbitrary<CallFactory> => ({
  arbitrary,
  weight,
});

export const text = fc.oneof(
  { arbitrary: fc.constantFrom('a', 'Lamp', '', 'ü 𝄞', `'";--`, '\\u0000', 'null', 'x'.repeat(300)), weight: 20 },
  { arbitrary: fc.constantFrom('a\0b', 'a\ud800'), weight: 1 },
);
/** A time near the days on which the ids were created. */
export const moment = fc.integer({ min: 0, max: 6 * 4 }).map((n) => (n * DAY) / 4);
export const tenant = fc.nat(TENANTS - 1);

/**
 * Outcome of a call: its result, or that its data was rejected. If several values are invalid, it is not specified
 * which one is reported; the suites of each part check single SQLSTATEs.
 */
export async function outcomeOf(call: Call, store: Store): Promise<unknown> {
  try {
    return { answer: comparable(await call.run(store)) };
  } catch (error) {
    if (error instanceof DataRefused) return { refused: true };
    throw error;
  }
}

/** Removes functions and sorts maps, so that values can be compared. */
export function comparable(value: unknown): unknown {
  if (value instanceof Map) return comparable(Object.fromEntries([...value].sort()));
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const { positions, ...rest } = value as { positions?: () => unknown };
  const members = Object.entries(rest).flatMap(([name, member]) =>
    typeof member === 'function' ? [] : [[name, comparable(member)] as const],
  );
  return { ...Object.fromEntries(members), ...(typeof positions === 'function' && { positions: positions() }) };
}

/** For results whose order the contract does not specify. */
export const sorted = async <T>(answer: Promise<readonly T[]>): Promise<T[]> =>
  [...(await answer)].sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));

const sortKey = (row: unknown): string =>
  typeof row === 'object' && row !== null ? JSON.stringify(Object.entries(row).sort()) : JSON.stringify(row);
