import { type ZodType, z } from 'zod';
import { isObject } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

/** Turns zod's schemas into those of a document; named ones (`meta({ id })`) become shared components. */
export class SchemaComponents {
  readonly components: JsonObject = {};

  input(schema: ZodType): JsonObject {
    return this.convert(schema, 'input');
  }

  /** Left open: an answer may gain members, and a client must not mind. */
  output(schema: ZodType): JsonObject {
    return this.convert(schema, 'output');
  }

  private convert(schema: ZodType, io: 'input' | 'output'): JsonObject {
    const made = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      override: ({ jsonSchema }) => {
        delete jsonSchema.noun; // ours, for refusals
        // The format says it; zod's own expressions are pages long.
        if (jsonSchema.format === 'uuid' || jsonSchema.format === 'date-time') delete jsonSchema.pattern;
        if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
        nameMembers(jsonSchema);
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      },
    });
    const { $schema: _, $defs, ...rest } = JSON.parse(JSON.stringify(made)) as JsonObject;
    for (const [id, definition] of Object.entries(isObject($defs) ? $defs : {})) {
      if (!UNNAMED.test(id)) this.components[id] = withComponentRefs(definition as Json);
    }
    return withComponentRefs(rest) as JsonObject;
  }
}

/** A record of known names, as an object with these members: that is what readers of schemas know. */
function nameMembers(schema: z.core.JSONSchema.BaseSchema): void {
  const { propertyNames, additionalProperties } = schema;
  if (typeof propertyNames !== 'object' || propertyNames.enum === undefined || !additionalProperties) return;
  schema.properties = Object.fromEntries(propertyNames.enum.map((name) => [`${name}`, additionalProperties]));
  delete schema.propertyNames;
  delete schema.additionalProperties;
}

/** What zod calls a recursive schema without a name. Only "any JSON" is one here, and `{}` says that. */
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
