import type { Json } from '../../src/domain/values.ts';
import { fc } from '../support/properties.ts';

// biome-ignore lint/suspicious/noExplicitAny: JSON Schema as a stranger reads it
export type Schema = any;

const anything = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;

interface Around {
  components: Schema;
  /** Ids of existing subjects. */
  ids: readonly string[];
}

/** Values that a schema of the description accepts, as far as the schema specifies them. */
export function valuesOf(schema: Schema, around: Around, depth = 0): fc.Arbitrary<Json> {
  const inside = (one: Schema) => valuesOf(one, around, depth + 1);
  if (schema === true || schema === undefined || depth > 6) return anything;
  if (schema.$ref) return inside(around.components[schema.$ref.split('/').at(-1)]);
  if ('const' in schema) return fc.constant(schema.const as Json);
  if (schema.enum) return fc.constantFrom(...(schema.enum as Json[]));
  for (const some of [schema.oneOf, schema.anyOf] as (Schema[] | undefined)[]) {
    if (some !== undefined) return fc.oneof(...some.map(inside));
  }
  if (Array.isArray(schema.type)) {
    return fc.oneof(...(schema.type as string[]).map((type) => inside({ ...schema, type })));
  }
  switch (schema.type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -5, max: schema.maximum ?? 2 ** 31 });
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e6, max: schema.maximum ?? 1e6, noNaN: true });
    case 'string':
      return textsOf(schema, around.ids);
    case 'array':
      return fc.array(inside(schema.items), { minLength: schema.minItems ?? 0, maxLength: (schema.minItems ?? 0) + 2 });
    case 'object':
      return objectsOf(schema, inside);
    default:
      return anything;
  }
}

function textsOf(
  { format, pattern, examples, minLength = 0, maxLength = 64 }: Schema,
  ids: readonly string[],
): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.oneof(fc.constantFrom(...ids), fc.uuid());
  if (format === 'date-time') {
    return fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }).map((date) => date.toISOString());
  }
  const plain = fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 64) });
  const known = examples?.length ? [fc.constantFrom(...(examples as string[]))] : [];
  if (pattern === undefined) return fc.oneof(plain, ...known);
  try {
    return fc.oneof(fc.stringMatching(new RegExp(pattern)), ...known);
  } catch {
    // A pattern that cannot be generated from.
    return fc.oneof(plain, ...known);
  }
}

function objectsOf(schema: Schema, inside: (one: Schema) => fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  const members = Object.entries<Schema>(schema.properties ?? {}).map(([name, member]) => [name, inside(member)]);
  const requiredKeys = (schema.required ?? []).filter((name: string) => name in (schema.properties ?? {}));
  return fc.record(Object.fromEntries(members), { requiredKeys }) as fc.Arbitrary<Json>;
}
