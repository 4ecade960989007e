import {
  GraphQLBoolean,
  GraphQLError,
  GraphQLFloat,
  GraphQLID,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableInputType,
  GraphQLString,
} from 'graphql';
import { isObject, setOwn } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { camel, pascal } from './casing.ts';
import type { Enums } from './enum-types.ts';
import type { NullableShape, Shape, ShapeMember } from './operation-shapes.ts';
import { dateTimeScalar, jsonObjectScalar, jsonScalar } from './scalars.ts';

/** Converts the arguments of a field to the input of its operation. */
export type ReadInput = (given: unknown) => Json;

interface InputType {
  type: GraphQLNullableInputType;
  read: ReadInput;
}

const asIs: ReadInput = (given) => given as Json;

/** Copies JSON. Literals in a document arrive as objects without a prototype, and may be numbers that overflow to infinity. */
const copyJson: ReadInput = (given) => {
  if (Array.isArray(given)) return given.map(copyJson);
  if (typeof given === 'number' && !Number.isFinite(given)) throw new GraphQLError('The number is too large.');
  if (!isObject(given)) return given as Json;
  const object: JsonObject = {};
  for (const [key, value] of Object.entries(given)) setOwn(object, key, copyJson(value));
  return object;
};

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

/** Input types with their readers, built from the operations' input schemas. Defaults are left to the operation. */
export class InputTypes {
  readonly #enums: Enums;
  readonly #objects = new Map<string, InputType>();

  constructor(enums: Enums) {
    this.#enums = enums;
  }

  /** The members of an operation's input as arguments, or as fields of an input object. */
  fields(
    members: readonly ShapeMember[],
    place: string,
    renamed: Readonly<Record<string, string>> = {},
  ): { fields: GraphQLInputFieldConfigMap; read(given: object): JsonObject } {
    const fields: GraphQLInputFieldConfigMap = {};
    const readers = new Map<string, { wire: string; read: ReadInput; nullable: boolean }>();
    for (const member of members) {
      const name = renamed[member.name] ?? camel(member.name);
      if (name in fields) throw new Error(`${place} has two members ${name}`);
      const { type, read } = this.#input(member, place + pascal(member.name));
      fields[name] = {
        type: member.required && !member.nullable ? new GraphQLNonNull(type) : type,
        description: member.about,
      };
      readers.set(name, { wire: member.name, read, nullable: member.nullable });
    }
    const read = (given: object): JsonObject => {
      const input: JsonObject = {};
      for (const [name, value] of Object.entries(given)) {
        const reader = readers.get(name);
        if (reader === undefined) throw new Error(`${place} has no member ${name}`);
        // Null is the same as leaving the member out, unless the operation's schema accepts null.
        if (value !== null) setOwn(input, reader.wire, reader.read(value));
        else if (reader.nullable) setOwn(input, reader.wire, null);
      }
      return input;
    };
    return { fields, read };
  }

  #input({ shape }: NullableShape, place: string): InputType {
    switch (shape.kind) {
      case 'object':
        return this.#object(shape, shape.name === null ? place : shape.name);
      case 'list': {
        const { type, read } = this.#input(shape.of, place);
        return {
          type: new GraphQLList(new GraphQLNonNull(type)),
          read: (given) => (Array.isArray(given) ? given.map(read) : [read(given)]),
        };
      }
      case 'enum':
        return { type: this.#enums.of(shape, place), read: asIs };
      case 'literal':
        return { type: typeof shape.value === 'boolean' ? GraphQLBoolean : GraphQLString, read: asIs };
      case 'union':
        throw new Error(`${place} is a union, which is not supported here`);
      case 'json':
      case 'json object':
        return { type: scalarTypes[shape.kind], read: copyJson };
      default:
        return { type: scalarTypes[shape.kind], read: asIs };
    }
  }

  #object(shape: Extract<Shape, { kind: 'object' }>, place: string): InputType {
    const name = `${place.replace(/Input$/, '')}Input`;
    const known = this.#objects.get(name);
    if (known !== undefined) return known;
    const { fields, read } = this.fields(shape.members, place);
    const input = {
      type: new GraphQLInputObjectType({ name, description: shape.about, fields }),
      read: (given: unknown) => read(given as object),
    };
    this.#objects.set(name, input);
    return input;
  }

  /** The input object of an operation. */
  operationInput(shape: Shape, place: string): { type: GraphQLInputObjectType; read(given: object): JsonObject } {
    if (shape.kind === 'union') return this.#oneOf(shape.of, place);
    if (shape.kind !== 'object') throw new Error(`the input of ${place} must be an object`);
    const { fields, read } = this.fields(shape.members, place);
    return { type: new GraphQLInputObjectType({ name: `${place}Input`, fields }), read };
  }

  /** A union discriminated by `type`, each variant with a `payload`, as a OneOf input object with one field per type. */
  #oneOf(shapes: readonly Shape[], place: string): { type: GraphQLInputObjectType; read(given: object): JsonObject } {
    const fields: GraphQLInputFieldConfigMap = {};
    const readers = new Map<string, { type: string; read: ReadInput }>();
    for (const shape of shapes) {
      const members = shape.kind === 'object' ? shape.members : [];
      const type = members.find(({ name }) => name === 'type')?.shape;
      const payload = members.find(({ name }) => name === 'payload');
      if (type?.kind !== 'literal' || payload === undefined)
        throw new Error(`${place} has a variant without a literal type and a payload`);
      const { type: input, read } = this.#input(payload, place + pascal(`${type.value}`));
      fields[camel(`${type.value}`)] = { type: input };
      readers.set(camel(`${type.value}`), { type: `${type.value}`, read });
    }
    return {
      type: new GraphQLInputObjectType({ name: `${place}Input`, isOneOf: true, fields }),
      read(given) {
        const [[name, value] = ['', null]] = Object.entries(given);
        const reader = readers.get(name);
        if (reader === undefined || !isObject(value)) throw new Error(`${place} has no variant ${name}`);
        return { type: reader.type, payload: reader.read(value) };
      },
    };
  }
}
