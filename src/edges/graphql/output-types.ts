import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  GraphQLFloat,
  GraphQLID,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLString,
} from 'graphql';
import { camel, pascal } from './casing.ts';
import type { Enums } from './enum-types.ts';
import type { GraphqlContext } from './graphql-context.ts';
import type { LeafExtension } from './list-projection.ts';
import type { FieldCosts } from './operation-cost.ts';
import type { NullableShape, Shape, ShapeMember } from './operation-shapes.ts';
import { dateTimeScalar, jsonObjectScalar, jsonScalar } from './scalars.ts';

type Source = Readonly<Record<string, unknown>>;
export type Fields = GraphQLFieldConfigMap<Source, GraphqlContext>;
export type ObjectShape = Extract<Shape, { kind: 'object' }>;

const scalarTypes = {
  id: GraphQLID,
  time: dateTimeScalar,
  text: GraphQLString,
  integer: GraphQLInt,
  number: GraphQLFloat,
  boolean: GraphQLBoolean,
  json: jsonScalar,
  'json object': jsonObjectScalar,
  nothing: jsonScalar,
} as const;

/** Length that the cost calculation assumes for a list without a limit (operation-cost.ts). */
export const ASSUMED_ENTRIES = 10;
/** Of lists that are mostly longer or shorter, by type and member. */
const assumedLengths: Readonly<Record<string, Readonly<Record<string, number | string>>>> = {
  // An argument of the field around them.
  HistoryQueryResult: { series: 'maxSeries' },
  DeviceHistory: { samples: 'limit', points: 'limit' },
  HistoryPoint: { states: 2 },
};

/** Output types, built from the operations' output schemas. A named type is built once, when an operation first uses it. */
export class OutputTypes {
  readonly #enums: Enums;
  /** Fields that link a named type to other types. */
  readonly #links: Readonly<Record<string, (outputs: OutputTypes) => Fields>>;
  /** Names for types that are equal under several names, or that have no name in the schema. */
  readonly #renamed: readonly (readonly [alike: RegExp, name: string])[];
  readonly #objects = new Map<string, GraphQLObjectType<Source, GraphqlContext>>();

  constructor(parts: {
    enums: Enums;
    links: Readonly<Record<string, (outputs: OutputTypes) => Fields>>;
    renamed: readonly (readonly [alike: RegExp, name: string])[];
  }) {
    this.#enums = parts.enums;
    this.#links = parts.links;
    this.#renamed = parts.renamed;
  }

  /** Result of an operation without a response body. */
  readonly done = new GraphQLObjectType<Source, GraphqlContext>({
    name: 'Done',
    fields: { done: { type: new GraphQLNonNull(GraphQLBoolean), description: 'True' } },
  });

  /** A type that was built before, by its name. */
  typeNamed(name: string): GraphQLObjectType<Source, GraphqlContext> {
    const type = this.#objects.get(name);
    if (type === undefined) throw new Error(`no operation outputs a ${name}`);
    return type;
  }

  type({ shape, nullable }: NullableShape, place: string): GraphQLOutputType {
    const type = this.nullableType(shape, place);
    return nullable ? type : new GraphQLNonNull(type);
  }

  nullableType(shape: Shape, place: string) {
    switch (shape.kind) {
      case 'object':
        return this.object(shape, place);
      case 'list':
        return new GraphQLList(this.type(shape.of, place));
      case 'enum':
        return this.#enums.of(shape, place);
      case 'literal':
        return typeof shape.value === 'boolean' ? GraphQLBoolean : GraphQLString;
      case 'union':
        throw new Error(`${place} is a union, which is not supported here`);
      default:
        return scalarTypes[shape.kind];
    }
  }

  object(shape: ObjectShape, place: string): GraphQLObjectType<Source, GraphqlContext> {
    const given = shape.name ?? place;
    const [, name = given] = this.#renamed.find(([alike]) => alike.test(given)) ?? [];
    const known = this.#objects.get(name);
    if (known !== undefined) return known;
    const type: GraphQLObjectType<Source, GraphqlContext> = new GraphQLObjectType<Source, GraphqlContext>({
      name,
      description: shape.about,
      fields: () => ({ ...this.fields(shape.members, name), ...this.#links[name]?.(this) }),
    });
    this.#objects.set(name, type);
    return type;
  }

  /** The type of a subscription's events, which no operation outputs. */
  eventType(name: string, fields: () => Fields): GraphQLObjectType<Source, GraphqlContext> {
    return new GraphQLObjectType<Source, GraphqlContext>({
      name,
      fields: () => ({ ...fields(), ...this.#links[name]?.(this) }),
    });
  }

  fields(members: readonly ShapeMember[], place: string): Fields {
    const fields: Fields = {};
    for (const member of members) {
      const name = camel(member.name);
      if (name in fields) throw new Error(`${place} has two members ${name}`);
      const nullable = member.nullable || !member.required;
      if (isTimestamp(member)) {
        fields[name] = { type: new GraphQLNonNull(dateTimeScalar), resolve: (source) => timeOf(source[member.name]) };
        continue;
      }
      fields[name] = {
        type: this.type({ shape: member.shape, nullable }, place + pascal(member.name)),
        description: member.about,
        // Members with the same name use the library's default resolver, which costs less.
        ...(name !== member.name && { resolve: (source) => source[member.name] }),
        extensions: { ...extensionsOf(member, place) },
      };
    }
    return fields;
  }
}

const extensionsOf = ({ name, shape }: ShapeMember, type: string): FieldCosts & LeafExtension =>
  shape.kind === 'list'
    ? { assumedEntries: assumedLengths[type]?.[name] ?? ASSUMED_ENTRIES }
    : shape.kind === 'object'
      ? {}
      : { leafMember: name };

/** A timestamp object, as tenant records have it (contract §2); in GraphQL it is a `DateTime` like any other time. */
const isTimestamp = ({ shape }: ShapeMember): boolean =>
  shape.kind === 'object' && shape.members.some(({ name }) => name === '_seconds');

function timeOf(timestamp: unknown): number {
  const { _seconds, _nanoseconds } = timestamp as Record<'_seconds' | '_nanoseconds', number>;
  return _seconds * 1_000 + Math.floor(_nanoseconds / 1_000_000);
}
