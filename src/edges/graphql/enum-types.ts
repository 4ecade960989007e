import { GraphQLEnumType } from 'graphql';
import { constantCase } from './casing.ts';
import type { Shape } from './operation-shapes.ts';

/** Enum types, one per list of values. */
export class Enums {
  readonly #types = new Map<string, GraphQLEnumType>();

  /** The type of a schema. Its name is the schema's id, or the place where the list occurs first. */
  of({ name, values }: Extract<Shape, { kind: 'enum' }>, place: string): GraphQLEnumType {
    const existing = this.#types.get(keyOf(values));
    return existing !== undefined && name === null ? existing : this.named(name ?? place, values);
  }

  /** Throws if another type has the same values: a schema of this list lacks its id. */
  named(name: string, values: readonly string[]): GraphQLEnumType {
    const key = keyOf(values);
    const existing = this.#types.get(key);
    if (existing?.name === name) return existing;
    if (existing !== undefined) throw new Error(`${name} has the same values as ${existing.name}`);
    const type = new GraphQLEnumType({
      name,
      values: Object.fromEntries(values.map((value) => [constantCase(value), { value }])),
    });
    this.#types.set(key, type);
    return type;
  }
}

const keyOf = (values: readonly string[]): string => values.join('|');
