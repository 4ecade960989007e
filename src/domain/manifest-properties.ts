import { z } from 'zod';
import { historyModeSchema } from './enum-schemas.ts';
import { MAX_PROPERTY_LENGTH, pathNamesOf, seriesPathOf } from './history/sample.ts';
import { isObject } from './json/value.ts';
import type { Capability, ManifestProperty } from './manifest.ts';
import type { FieldError } from './refusals.ts';
import { paramOf } from './twin.ts';
import { isUnit } from './units.ts';
import type { Json, JsonObject } from './values.ts';

// Reported properties in a manifest: their names and units for people, and the samples that the history keeps.

export const MAX_PROPERTIES = 100;
const LABEL = /^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u;

const propertyFields = z.strictObject({
  label: z
    .string()
    .refine((label) => LABEL.test(label) && label.trim() === label, 'must be 1 to 64 characters on one line')
    .optional()
    .meta({ description: 'Its name for people' }),
  unit: z.string().refine(isUnit, 'must be 1 to 16 characters without white space').optional(),
  history: historyModeSchema.optional().meta({ description: 'Samples that the history keeps; default `every`' }),
  deadband: z
    .number()
    .min(0)
    .optional()
    .meta({ description: 'With `change`: a number is kept that differs from the last one kept by more' }),
});

export const propertiesField = z
  .record(z.string().min(1).max(MAX_PROPERTY_LENGTH), propertyFields)
  .refine(
    (properties) => Object.keys(properties).length <= MAX_PROPERTIES,
    `must have at most ${MAX_PROPERTIES} properties`,
  )
  .optional()
  .meta({ description: 'Reported properties by path, as in the history (`climate.temperature`, `$telemetry.rssi`)' });

type GivenProperties = NonNullable<z.infer<typeof propertiesField>>;

/** Without members that are not given. */
export const completeProperties = (given: GivenProperties): Record<string, ManifestProperty> =>
  Object.fromEntries(
    Object.entries(given).map(([path, { label, unit, history, deadband }]): [string, ManifestProperty] => [
      path,
      {
        ...(label !== undefined && { label }),
        ...(unit !== undefined && { unit }),
        ...(history !== undefined && { history }),
        ...(deadband !== undefined && { deadband }),
      },
    ]),
  );

/** Errors that the schema does not find, with the path of the property. */
export function propertyErrors(given: GivenProperties, capabilities: readonly Capability[]): FieldError[] {
  const off = Object.keys(given).filter((path) => given[path]?.history === 'off');
  const setTo = Object.entries(given).some(([, { deadband }]) => deadband !== undefined)
    ? typesSetBy(capabilities)
    : new Map<string, SetValue>();
  return Object.entries(given).flatMap(([path, { history, deadband }]) => {
    const at = `properties.${path}`;
    if (seriesPathOf(path) === null) {
      const message =
        'is not a path: write names separated by dots, with a backslash before a dot or a backslash in a name and before a dollar sign at the start; only $telemetry begins with one';
      return [{ path: at, message }];
    }
    const errors: FieldError[] = [];
    const above = off.find((one) => path.startsWith(`${one}.`));
    if (above !== undefined && history !== undefined && history !== 'off')
      errors.push({ path: `${at}.history`, message: `must be off: the history of '${above}' is, with all below it` });
    if (deadband === undefined) return errors;
    if (history !== 'change') errors.push({ path: `${at}.deadband`, message: 'requires "history": "change"' });
    const set = setTo.get(pathNamesOf(path).join('.'));
    if (set !== undefined)
      errors.push({
        path: `${at}.deadband`,
        message: `is for numbers: the action '${set.action}' sets the property to another type (${set.type})`,
      });
    return errors;
  });
}

interface SetValue {
  action: string;
  type: string;
}

/** The properties that expected states set to something other than a number, by their names joined with dots. */
function typesSetBy(capabilities: readonly Capability[]): Map<string, SetValue> {
  const found = new Map<string, SetValue>();
  for (const capability of capabilities) {
    if (capability.expectedState !== undefined) collect(capability.expectedState, '', capability, found);
  }
  return found;
}

function collect(template: JsonObject, prefix: string, capability: Capability, into: Map<string, SetValue>): void {
  for (const [name, part] of Object.entries(template)) {
    const at = prefix + name;
    const type = typeOf(part as Json, capability);
    if (type === 'object' && isObject(part as Json) && paramOf(part as Json) === undefined)
      collect(part as JsonObject, `${at}.`, capability, into);
    else if (type !== null && type !== 'number' && type !== 'integer')
      into.set(at, { action: capability.action, type });
  }
}

/** The JSON type of a node of an expected state; null if the schema of its parameter names none. */
function typeOf(node: Json, { paramSchema }: Capability): string | null {
  const param = paramOf(node);
  if (param === undefined) return node === null ? 'null' : Array.isArray(node) ? 'array' : typeof node;
  const schema = isObject(paramSchema.properties) ? paramSchema.properties[param] : undefined;
  return isObject(schema ?? null) && typeof (schema as JsonObject).type === 'string'
    ? ((schema as JsonObject).type as string)
    : null;
}
