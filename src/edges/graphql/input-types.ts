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
import type { Member, NullableShape, Shape } from './operation-shapes.ts';
import { dateTime, json, jsonObject } from './scalars.ts';

/** From what a field was given to the input of its operation. */
export type ReadInput = (given: unknown) => Json;

interface InputType {
  type: GraphQLNullableInputType;
  read: ReadInput;
}

const asIs: ReadInput = (given) => given as Json;

/** JSON that was written into a document has objects without a prototype, and numbers beyond all numbers. */
const copyJson: ReadInput = (given) => {
  if (Array.isArray(given)) return given.map(copyJson);
  if (typeof given === 'number' && !Number.isFinite(given)) throw new GraphQLError('A number is too large.');
  if (!isObject(given)) return given as Json;
  const object: JsonObject = {};
  for (const [key, value] of Object.entries(given)) setOwn(object, key, copyJson(value));
  return object;
};

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

/** Types of inputs, and the ways back from them. What is missing stays missing: defaults are the operation's. */
export class InputTypes {
  private readonly enums: Enums;
  private readonly objects = new Map<string, InputType>();

  constructor(enums: Enums) {
    this.enums = enums;
  }

  /** The members of an operation's input as arguments, or as fields of an input object. */
  fields(
    members: readonly Member[],
    place: string,
    renamed: Readonly<Record<string, string>> = {},
  ): { fields: GraphQLInputFieldConfigMap; read(given: object): JsonObject } {
    const fields: GraphQLInputFieldConfigMap = {};
    const readers = new Map<string, { wire: string; read: ReadInput; nullable: boolean }>();
    for (const member of members) {
      const name = renamed[member.name] ?? camel(member.name);
      if (name in fields) throw new Error(`${place} has two members ${name}`);
      const { type, read } = this.input(member, place + pascal(member.name));
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
        if (reader === undefined) throw new Error(`${place} knows no ${name}`);
        // Null says the same as nothing, but where the operation itself knows it.
        if (value !== null) setOwn(input, reader.wire, reader.read(value));
        else if (reader.nullable) setOwn(input, reader.wire, null);
      }
      return input;
    };
    return { fields, read };
  }

  private input({ shape }: NullableShape, place: string): InputType {
    switch (shape.kind) {
      case 'object':
        return this.object(shape, shape.name === null ? place : shape.name);
      case 'list': {
        const { type, read } = this.input(shape.of, place);
        return {
          type: new GraphQLList(new GraphQLNonNull(type)),
          read: (given) => (Array.isArray(given) ? given.map(read) : [read(given)]),
        };
      }
      case 'enum':
        return { type: this.enums.of(shape.values, place), read: asIs };
      case 'literal':
        return { type: typeof shape.value === 'boolean' ? GraphQLBoolean : GraphQLString, read: asIs };
      case 'union':
        throw new Error(`${place} may be several things`);
      case 'json':
      case 'json object':
        return { type: scalarTypes[shape.kind], read: copyJson };
      default:
        return { type: scalarTypes[shape.kind], read: asIs };
    }
  }

  private object(shape: Extract<Shape, { kind: 'object' }>, place: string): InputType {
    const name = `${place.replace(/Input$/, '')}Input`;
    const known = this.objects.get(name);
    if (known !== undefined) return known;
    const { fields, read } = this.fields(shape.members, place);
    const made = {
      type: new GraphQLInputObjectType({ name, description: shape.about, fields }),
      read: (given: unknown) => read(given as object),
    };
    this.objects.set(name, made);
    return made;
  }

  /** The whole input of an operation. */
  operationInput(shape: Shape, place: string): { type: GraphQLInputObjectType; read(given: object): JsonObject } {
    if (shape.kind === 'union') return this.oneOf(shape.of, place);
    if (shape.kind !== 'object') throw new Error(`the input of ${place} is no object`);
    const { fields, read } = this.fields(shape.members, place);
    return { type: new GraphQLInputObjectType({ name: `${place}Input`, fields }), read };
  }

  /** Things that their `type` tells apart, each with a `payload`: one of several fields, by that type. */
  private oneOf(
    shapes: readonly Shape[],
    place: string,
  ): { type: GraphQLInputObjectType; read(given: object): JsonObject } {
    const fields: GraphQLInputFieldConfigMap = {};
    const readers = new Map<string, { type: string; read: ReadInput }>();
    for (const shape of shapes) {
      const members = shape.kind === 'object' ? shape.members : [];
      const type = members.find(({ name }) => name === 'type')?.shape;
      const payload = members.find(({ name }) => name === 'payload');
      if (type?.kind !== 'literal' || payload === undefined) throw new Error(`${place} is told apart by no type`);
      const { type: input, read } = this.input(payload, place + pascal(`${type.value}`));
      fields[camel(`${type.value}`)] = { type: input };
      readers.set(camel(`${type.value}`), { type: `${type.value}`, read });
    }
    return {
      type: new GraphQLInputObjectType({ name: `${place}Input`, isOneOf: true, fields }),
      read(given) {
        const [[name, value] = ['', null]] = Object.entries(given);
        const reader = readers.get(name);
        if (reader === undefined || !isObject(value)) throw new Error(`${place} knows no ${name}`);
        return { type: reader.type, payload: reader.read(value) };
      },
    };
  }
}
