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
import type { Context } from './context.ts';
import type { FieldCosts } from './document-limits.ts';
import type { Enums } from './enum-types.ts';
import type { LeafExtension } from './leaf-nodes.ts';
import type { Member, NullableShape, Shape } from './operation-shapes.ts';
import { dateTime, json, jsonObject } from './scalars.ts';

type Source = Readonly<Record<string, unknown>>;
export type Fields = GraphQLFieldConfigMap<Source, Context>;
export type ObjectShape = Extract<Shape, { kind: 'object' }>;

const scalarTypes = {
  id: GraphQLID,
  time: dateTime,
  text: GraphQLString,
  integer: GraphQLInt,
  number: GraphQLFloat,
  boolean: GraphQLBoolean,
  json,
  'json object': jsonObject,
  nothing: json,
} as const;

/** What a list of something with so many entries as nobody says counts as (limits.ts). */
export const ASSUMED_ENTRIES = 10;

/** Types of what operations answer. A type that has a name is made once, whichever operation shows it first. */
export class OutputTypes {
  private readonly enums: Enums;
  /** Fields that lead from a named type to other things. */
  private readonly links: Readonly<Record<string, (outputs: OutputTypes) => Fields>>;
  /** Names of what is the same under several names, or has none of its own. */
  private readonly renamed: readonly (readonly [alike: RegExp, name: string])[];
  private readonly objects = new Map<string, GraphQLObjectType<Source, Context>>();

  constructor(parts: {
    enums: Enums;
    links: Readonly<Record<string, (outputs: OutputTypes) => Fields>>;
    renamed: readonly (readonly [alike: RegExp, name: string])[];
  }) {
    this.enums = parts.enums;
    this.links = parts.links;
    this.renamed = parts.renamed;
  }

  /** What an operation answers that has nothing to say. */
  readonly done = new GraphQLObjectType<Source, Context>({
    name: 'Done',
    fields: { done: { type: new GraphQLNonNull(GraphQLBoolean), description: 'True' } },
  });

  /** The type of that name, once something was made that shows it. */
  typeNamed(name: string): GraphQLObjectType<Source, Context> {
    const type = this.objects.get(name);
    if (type === undefined) throw new Error(`nothing shows a ${name}`);
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
        return this.enums.of(shape.values, place);
      case 'literal':
        return typeof shape.value === 'boolean' ? GraphQLBoolean : GraphQLString;
      case 'union':
        throw new Error(`${place} may be several things`);
      default:
        return scalarTypes[shape.kind];
    }
  }

  object(shape: ObjectShape, place: string): GraphQLObjectType<Source, Context> {
    const given = shape.name ?? place;
    const [, name = given] = this.renamed.find(([alike]) => alike.test(given)) ?? [];
    const known = this.objects.get(name);
    if (known !== undefined) return known;
    const type: GraphQLObjectType<Source, Context> = new GraphQLObjectType<Source, Context>({
      name,
      description: shape.about,
      fields: () => ({ ...this.fields(shape.members, name), ...this.links[name]?.(this) }),
    });
    this.objects.set(name, type);
    return type;
  }

  /** A type that no operation answers. */
  eventType(name: string, fields: () => Fields): GraphQLObjectType<Source, Context> {
    return new GraphQLObjectType<Source, Context>({
      name,
      fields: () => ({ ...fields(), ...this.links[name]?.(this) }),
    });
  }

  fields(members: readonly Member[], place: string): Fields {
    const fields: Fields = {};
    for (const member of members) {
      const name = camel(member.name);
      if (name in fields) throw new Error(`${place} has two members ${name}`);
      const nullable = member.nullable || !member.required;
      if (isTimestamp(member)) {
        fields[name] = { type: new GraphQLNonNull(dateTime), resolve: (source) => timeOf(source[member.name]) };
        continue;
      }
      fields[name] = {
        type: this.type({ shape: member.shape, nullable }, place + pascal(member.name)),
        description: member.about,
        // What is named alike is looked up by the library itself, at less cost.
        ...(name !== member.name && { resolve: (source) => source[member.name] }),
        extensions: { ...extensionsOf(member) },
      };
    }
    return fields;
  }
}

const extensionsOf = ({ name, shape }: Member): FieldCosts & LeafExtension =>
  shape.kind === 'list' ? { entries: ASSUMED_ENTRIES } : shape.kind === 'object' ? {} : { plain: name };

/** A time as records of tenants have it (contract §2); here it is like every other one. */
const isTimestamp = ({ shape }: Member): boolean =>
  shape.kind === 'object' && shape.members.some(({ name }) => name === '_seconds');

function timeOf(timestamp: unknown): number {
  const { _seconds, _nanoseconds } = timestamp as Record<'_seconds' | '_nanoseconds', number>;
  return _seconds * 1_000 + Math.floor(_nanoseconds / 1_000_000);
}
