import { type ZodType, z } from 'zod';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

/** Converts Zod schemas to OpenAPI schemas; named ones (`meta({ id })`) become shared components. */
export class SchemaComponents {
  readonly components: JsonObject = {};
  readonly #tiers: readonly string[];

  /** `tiers`: the tiers that are configured, which are the values of `oneOfTiers`. */
  constructor(tiers: readonly string[] = []) {
    this.#tiers = tiers;
  }

  input(schema: ZodType): JsonObject {
    return this.#convert(schema, 'input');
  }

  /** Allows additional properties: responses may gain members without breaking clients. */
  output(schema: ZodType): JsonObject {
    return this.#convert(schema, 'output');
  }

  #convert(schema: ZodType, io: 'input' | 'output'): JsonObject {
    const converted = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      override: ({ jsonSchema }) => {
        delete jsonSchema.noun; // custom keyword, for refusal texts
        if (jsonSchema.oneOfTiers === true && this.#tiers.length > 0) jsonSchema.enum = [...this.#tiers];
        delete jsonSchema.oneOfTiers;
        // `format` is enough; Zod's regular expressions are pages long.
        if (jsonSchema.format === 'uuid' || jsonSchema.format === 'date-time') delete jsonSchema.pattern;
        if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
        nameMembers(jsonSchema);
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      },
    });
    const { $schema: _, $defs, ...rest } = JSON.parse(JSON.stringify(converted)) as JsonObject;
    for (const [id, definition] of Object.entries(isObject($defs) ? $defs : {})) {
      if (!UNNAMED.test(id)) this.components[id] = withComponentRefs(definition as Json);
    }
    return withComponentRefs(rest) as JsonObject;
  }
}

/** Turns a record with an enum of keys into an object with these properties, which more tools support. */
function nameMembers(schema: z.core.JSONSchema.BaseSchema): void {
  const { propertyNames, additionalProperties } = schema;
  if (typeof propertyNames !== 'object' || propertyNames.enum === undefined || !additionalProperties) return;
  schema.properties = Object.fromEntries(propertyNames.enum.map((name) => [`${name}`, additionalProperties]));
  delete schema.propertyNames;
  delete schema.additionalProperties;
}

/** Zod's name for a recursive schema without an ID. The only one is "any JSON", which is `{}`. */
const UNNAMED = /__schema\d+$/;

function withComponentRefs(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withComponentRefs);
  if (!isObject(schema)) return schema;
  if (typeof schema.$ref === 'string' && UNNAMED.test(schema.$ref)) return {};
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === '$ref' && typeof value === 'string'
        ? value.replace('#/$defs/', '#/components/schemas/')
        : withComponentRefs(value),
    ]),
  );
}
