import { type ZodType, z } from 'zod';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

/** A JSON Schema whose root is an object, as tools have them. */
export type ObjectSchema = JsonObject & { type: 'object' };

/** The names that a tool has for arguments of its operation: `{ device_id: 'id' }`. */
export type ArgumentNames = Readonly<Record<string, string>>;

/** What of an operation's arguments a tool has, and how. */
export interface ArgumentOptions {
  names?: ArgumentNames;
  /** Left out, by the tool's names. */
  omit?: readonly string[];
  /** Needed, though the operation's schema alone does not say so. */
  alsoRequired?: readonly string[];
}

/** The arguments of a tool: those of its operation, some under another name. */
export function inputSchema(
  schema: ZodType,
  { names = {}, omit = [], alsoRequired = [] }: ArgumentOptions = {},
): ObjectSchema {
  const { properties = {}, required = [], ...rest } = objectSchema(schema, 'input');
  const toolName = new Map(Object.entries(names).map(([tool, own]) => [own, tool]));
  const nameOf = (own: string): string => toolName.get(own) ?? own;
  const members = Object.entries(properties as JsonObject).flatMap(([own, member]) => {
    const name = nameOf(own);
    return omit.includes(name) ? [] : [[name, withDescription(name, member as JsonObject)] as const];
  });
  const needed = [...(required as string[]).map(nameOf), ...alsoRequired];
  return {
    ...rest,
    type: 'object',
    properties: Object.fromEntries(members),
    ...(needed.length > 0 && { required: needed }),
  };
}

/** Left open: a result may gain members, and a client must not mind. */
export const outputSchema = (schema: ZodType): ObjectSchema => objectSchema(schema, 'output');

/** What the ids are of that every tool names alike. */
const idDescriptions: Readonly<Record<string, string>> = {
  device_id: 'Id of a device, as list_devices shows it',
  home_id: 'Id of a home, as list_homes shows it',
  room_id: 'Id of a room, as list_rooms shows it',
  command_id: 'Id of a command, as execute_proto_command answers it',
  plan_id: 'Id of a plan, as execute_plan answers it',
  slug: 'Slug of a group, as list_groups shows it',
};

function withDescription(name: string, member: JsonObject): JsonObject {
  const description = idDescriptions[name];
  return member.description !== undefined || description === undefined ? member : { ...member, description };
}

function objectSchema(schema: ZodType, io: 'input' | 'output'): ObjectSchema {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      delete jsonSchema.noun; // ours, for refusals
      delete jsonSchema.id;
      // The format says it; zod's own expressions are pages long.
      if (jsonSchema.format === 'uuid' || jsonSchema.format === 'date-time') delete jsonSchema.pattern;
      if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  const { $schema: _, $defs, ...rest } = JSON.parse(JSON.stringify(made)) as JsonObject;
  const whole = inlineReferences(rest, isObject($defs) ? $defs : {}) as JsonObject;
  return { type: 'object', ...whole } as ObjectSchema;
}

/** What zod calls a recursive schema without a name. Only "any JSON" is one here. */
const ANONYMOUS_SCHEMA = /__schema\d+$/;

const anyJson = (): JsonObject => ({
  anyOf: ['null', 'boolean', 'number', 'string', 'array', 'object'].map((type) => ({ type })),
});

/** Without references: many clients hand each schema to a model that knows none. */
function inlineReferences(schema: Json, definitions: JsonObject): Json {
  if (Array.isArray(schema)) return schema.map((item) => inlineReferences(item, definitions));
  if (!isObject(schema)) return schema;
  const { $ref, ...beside } = schema;
  if (typeof $ref === 'string') {
    if (ANONYMOUS_SCHEMA.test($ref)) return anyJson();
    const found = definitions[$ref.replace('#/$defs/', '')];
    if (!isObject(found)) throw new Error(`there is no schema ${$ref}`);
    return inlineReferences({ ...found, ...beside }, definitions);
  }
  const members = Object.entries(schema).map(([key, value]) => [key, inlineReferences(value, definitions)] as const);
  return splitTypes(Object.fromEntries(members));
}

/** Several types at once are legal, and dialects that know no such thing take a choice of schemas. */
function splitTypes(schema: JsonObject): JsonObject {
  const { type, description, ...rest } = schema;
  if (!Array.isArray(type)) return schema;
  const anyOf = type.map((one) => (one === 'null' ? { type: one } : { ...rest, type: one }));
  return { ...(description !== undefined && { description }), anyOf };
}
