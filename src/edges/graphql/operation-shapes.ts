import { type ZodType, z } from 'zod';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

// The operations' Zod schemas, reduced to what a type system needs. Value constraints are left to the operation.

/** A schema with its references resolved. `name` is that of a schema declared with `meta({ id })`. */
export type Shape =
  | { kind: 'object'; name: string | null; about: string | null; members: readonly ShapeMember[] }
  | { kind: 'list'; of: NullableShape }
  | { kind: 'union'; of: readonly Shape[] }
  | { kind: 'enum'; name: string | null; values: readonly string[] }
  | { kind: 'literal'; value: string | boolean }
  | { kind: 'id' | 'time' | 'text' | 'integer' | 'number' | 'boolean' | 'json' | 'json object' | 'nothing' };

export interface NullableShape {
  shape: Shape;
  nullable: boolean;
}

export interface ShapeMember extends NullableShape {
  /** As on the wire. */
  name: string;
  about: string | null;
  required: boolean;
}

export function shapeOf(schema: ZodType, io: 'input' | 'output'): NullableShape {
  const { $defs, ...root } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
  }) as JsonObject;
  return toNullableShape(root, isObject($defs) ? $defs : {});
}

function toNullableShape(given: Json | undefined, defs: JsonObject, name: string | null = null): NullableShape {
  if (!isObject(given)) return { shape: { kind: 'json' }, nullable: false };
  if (typeof given.$ref === 'string') {
    const id = given.$ref.replace('#/$defs/', '');
    // Zod's name for a recursive schema without an ID: only "any JSON" is one.
    return /__schema\d+$/.test(id) ? { shape: { kind: 'json' }, nullable: false } : toNullableShape(defs[id], defs, id);
  }
  const several = given.anyOf ?? given.oneOf;
  if (Array.isArray(several)) {
    const rest = several.filter((one) => !isNull(one)).map((one) => toNullableShape(one, defs));
    const nullable = rest.length < several.length || rest.some((one) => one.nullable);
    const [first] = rest;
    const shape: Shape =
      rest.length === 1 && first ? first.shape : { kind: 'union', of: rest.map(({ shape }) => shape) };
    return { shape, nullable };
  }
  if (Array.isArray(given.type)) {
    const [type] = given.type.filter((one) => one !== 'null');
    return { shape: toShape({ ...given, type: type ?? 'null' }, defs, name), nullable: given.type.includes('null') };
  }
  return { shape: toShape(given, defs, name), nullable: false };
}

const isNull = (schema: Json): boolean => isObject(schema) && schema.type === 'null';

function toShape(schema: JsonObject, defs: JsonObject, name: string | null): Shape {
  if (Array.isArray(schema.enum)) return { kind: 'enum', name, values: schema.enum.map(String) };
  if (typeof schema.const === 'string' || typeof schema.const === 'boolean')
    return { kind: 'literal', value: schema.const };
  switch (schema.type) {
    case 'null':
      return { kind: 'nothing' };
    case 'string':
      return { kind: textKind(schema) };
    case 'integer':
      return { kind: 'integer' };
    case 'number':
      return { kind: 'number' };
    case 'boolean':
      return { kind: 'boolean' };
    case 'array':
      return { kind: 'list', of: toNullableShape(schema.items, defs) };
    case 'object':
      return object(schema, defs, name);
    default:
      return { kind: 'json' };
  }
}

function textKind({ format, noun }: JsonObject): 'id' | 'time' | 'text' {
  if (format === 'date-time') return 'time';
  return format === 'uuid' || noun !== undefined ? 'id' : 'text';
}

/** Types a member as an ID by its name where the schema accepts any text: lists of IDs may contain unknown ones. */
function withIdKind(name: string, given: NullableShape): NullableShape {
  const { shape } = given;
  if (!/(^id|_ids?|[a-z]Ids?)$/.test(name)) return given;
  if (shape.kind === 'text') return { ...given, shape: { kind: 'id' } };
  return shape.kind === 'list' ? { ...given, shape: { kind: 'list', of: withIdKind(name, shape.of) } } : given;
}

function object(schema: JsonObject, defs: JsonObject, name: string | null): Shape {
  const { propertyNames, additionalProperties } = schema;
  // A record with an enum of keys is an object in which all these members are required.
  const known = isObject(propertyNames) && Array.isArray(propertyNames.enum) ? propertyNames.enum.map(String) : null;
  const properties: JsonObject =
    known === null
      ? isObject(schema.properties)
        ? schema.properties
        : {}
      : Object.fromEntries(known.map((member) => [member, additionalProperties as Json]));
  if (Object.keys(properties).length === 0 && schema.additionalProperties !== false) return { kind: 'json object' };
  const required = known ?? (Array.isArray(schema.required) ? schema.required.map(String) : []);
  return {
    kind: 'object',
    name,
    about: textOf(schema.description),
    members: Object.entries(properties).map(([member, given]) => ({
      name: member,
      ...withIdKind(member, toNullableShape(given, defs)),
      about: isObject(given) ? textOf(given.description) : null,
      required: required.includes(member),
    })),
  };
}

const textOf = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null);
