import { type ZodType, z } from 'zod';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

/** A JSON Schema with an object at its root, as MCP requires for tools. */
export type ObjectSchema = JsonObject & { type: 'object' };

/** Tool argument → operation input: `{ device_id: 'id' }`. */
export type ArgumentNames = Readonly<Record<string, string>>;

/** How the arguments of a tool differ from the input of its operation. */
export interface ArgumentOptions {
  names?: ArgumentNames;
  /** Arguments to leave out, by the tool's names. */
  omit?: readonly string[];
  /** Arguments that the tool requires although the operation's schema does not. */
  alsoRequired?: readonly string[];
}

/** The input schema of a tool, derived from the input of its operation. */
export function inputSchema(
  schema: ZodType,
  { names = {}, omit = [], alsoRequired = [] }: ArgumentOptions = {},
): ObjectSchema {
  const { properties = {}, required = [], ...rest } = objectSchema(schema, 'input');
  const toolNames = new Map(Object.entries(names).map(([tool, input]) => [input, tool]));
  const toolNameOf = (input: string): string => toolNames.get(input) ?? input;
  const members = Object.entries(properties as JsonObject).flatMap(([input, member]) => {
    const name = toolNameOf(input);
    return omit.includes(name) ? [] : [[name, withDescription(name, member as JsonObject)] as const];
  });
  const requiredNames = [...(required as string[]).map(toolNameOf), ...alsoRequired];
  return {
    ...rest,
    type: 'object',
    properties: Object.fromEntries(members),
    ...(requiredNames.length > 0 && { required: requiredNames }),
  };
}

/** Additional properties are allowed: later versions may add members to a result. */
export const outputSchema = (schema: ZodType): ObjectSchema => objectSchema(schema, 'output');

/** Descriptions of the id arguments that many tools share. */
const idDescriptions: Readonly<Record<string, string>> = {
  device_id: 'Id of a device, from list_devices',
  home_id: 'Id of a home, from list_homes',
  room_id: 'Id of a room, from list_rooms',
  command_id: 'Id of a command, from execute_proto_command',
  plan_id: 'Id of a plan, from execute_plan',
  slug: 'Slug of a group, from list_groups',
};

function withDescription(name: string, member: JsonObject): JsonObject {
  const description = idDescriptions[name];
  return member.description !== undefined || description === undefined ? member : { ...member, description };
}

function objectSchema(schema: ZodType, io: 'input' | 'output'): ObjectSchema {
  const jsonSchema = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema: node }) => {
      delete node.noun; // internal, for refusal messages
      delete node.id;
      // Implied by the format; zod's regular expressions are very long.
      if (node.format === 'uuid' || node.format === 'date-time') delete node.pattern;
      if (io === 'output' && node.additionalProperties === false) delete node.additionalProperties;
      if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum;
      if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum;
    },
  });
  const { $schema: _, $defs, ...rest } = JSON.parse(JSON.stringify(jsonSchema)) as JsonObject;
  const inlined = inlineReferences(rest, isObject($defs) ? $defs : {}) as JsonObject;
  return { type: 'object', ...inlined } as ObjectSchema;
}

/** Zod's name for a recursive schema without a name. The only one here is "any JSON". */
const ANONYMOUS_SCHEMA = /__schema\d+$/;

const anyJson = (): JsonObject => ({
  anyOf: ['null', 'boolean', 'number', 'string', 'array', 'object'].map((type) => ({ type })),
});

/** Inlines `$ref`: many clients pass the schemas to models that do not support references. */
function inlineReferences(schema: Json, definitions: JsonObject): Json {
  if (Array.isArray(schema)) return schema.map((item) => inlineReferences(item, definitions));
  if (!isObject(schema)) return schema;
  const { $ref, ...siblings } = schema;
  if (typeof $ref === 'string') {
    if (ANONYMOUS_SCHEMA.test($ref)) return anyJson();
    const found = definitions[$ref.replace('#/$defs/', '')];
    if (!isObject(found)) throw new Error(`schema reference ${$ref} not found`);
    return inlineReferences({ ...found, ...siblings }, definitions);
  }
  const members = Object.entries(schema).map(([key, value]) => [key, inlineReferences(value, definitions)] as const);
  return splitTypes(Object.fromEntries(members));
}

/** Replaces a list of types by `anyOf`: some clients accept a single type only. */
function splitTypes(schema: JsonObject): JsonObject {
  const { type, description, ...rest } = schema;
  if (!Array.isArray(type)) return schema;
  const anyOf = type.map((one) => (one === 'null' ? { type: one } : { ...rest, type: one }));
  return { ...(description !== undefined && { description }), anyOf };
}
