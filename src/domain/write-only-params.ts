import { isObject } from './json/value.ts';
import type { Manifest } from './manifest.ts';
import { unlisted, WRITE_ONLY_MASK } from './param-schema.ts';
import type { SealedPlace, Sealer } from './sealing.ts';
import type { Json, JsonObject, Uuid } from './values.ts';

// Parameters marked `writeOnly` (JSON Schema 2020-12, Validation 9.4): they are sent to the device and never shown.

const known = new WeakMap<object, boolean>();

/** Whether a schema of the contract's subset marks a value, at any depth. Remembered for each schema object. */
export function hasWriteOnly(schema: JsonObject): boolean {
  const found = known.get(schema);
  if (found !== undefined) return found;
  const has = schema.writeOnly === true || schemasIn(schema).some(hasWriteOnly);
  known.set(schema, has);
  return has;
}

/** The schemas of the properties, of other properties and of the items. */
const schemasIn = ({ properties, additionalProperties, items }: JsonObject): JsonObject[] =>
  [...(isObject(properties) ? Object.values(properties) : []), additionalProperties, items].filter(isObject);

/**
 * The parameters of a command as they are stored and shown; the same object if nothing is masked. Also masks parameters
 * that the schema does not describe beside one that is marked, which may be misspelled, and all parameters of an unknown
 * action if an action of the device has or had marked ones, or may have had.
 */
export function maskParams(
  manifest: Pick<Manifest, 'capabilities' | 'removed'> | null,
  action: string,
  params: JsonObject,
): JsonObject {
  if (manifest === null) return params;
  const capability = manifest.capabilities.find((one) => one.action === action);
  if (capability !== undefined) {
    return hasWriteOnly(capability.paramSchema) ? maskMembers(capability.paramSchema, params, true) : params;
  }
  const others = [...manifest.capabilities, ...(manifest.removed ?? [])];
  const marksAny = others.some(({ paramSchema }) => paramSchema === null || hasWriteOnly(paramSchema));
  return marksAny ? maskAllParams(params) : params;
}

/** For a device whose manifest is not known. */
export const maskAllParams = (params: JsonObject): JsonObject => mapMembers(params, () => WRITE_ONLY_MASK);

function mask(schema: JsonObject, value: Json): Json {
  if (schema.writeOnly === true) return WRITE_ONLY_MASK;
  if (!hasWriteOnly(schema)) return value;
  const { items } = schema;
  if (Array.isArray(value) && isObject(items)) return value.map((item) => mask(items, item));
  // A value of another type than expected: it is not known which part of it must not be shown.
  return isObject(value) ? maskMembers(schema, value, false) : WRITE_ONLY_MASK;
}

function maskMembers(schema: JsonObject, value: JsonObject, root: boolean): JsonObject {
  const listed = isObject(schema.properties) ? schema.properties : {};
  const others = unlisted(schema, root);
  return mapMembers(value, (name, member) => {
    if (Object.hasOwn(listed, name)) return mask(listed[name] as JsonObject, member);
    return isObject(others) ? mask(others, member) : WRITE_ONLY_MASK;
  });
}

/** Members with any name, also `__proto__`, stay members. */
const mapMembers = (value: JsonObject, map: (name: string, member: Json) => Json): JsonObject =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [name, map(name, member as Json)]));

/**
 * The paths that `before` marks and `after` does not, such as `credentials.pin`; `*` stands for any property and `[]` for
 * an item. A marked parameter that `after` does not describe counts, because values of refused commands are stored too.
 */
export function exposedParams(before: JsonObject, after: JsonObject | null, at = '', root = true): string[] {
  if (!hasWriteOnly(before) || after?.writeOnly === true) return [];
  if (before.writeOnly === true) return [at];
  const listed = after === null ? {} : propertiesOf(after);
  const others = after === null ? null : schemaOrNull(unlisted(after, root));
  const { additionalProperties, items } = before;
  const join = (name: string): string => (at === '' ? name : `${at}.${name}`);
  return [
    ...Object.entries(propertiesOf(before)).flatMap(([name, schema]) => {
      const now = Object.hasOwn(listed, name) ? schemaOrNull(listed[name]) : others;
      return exposedParams(schema as JsonObject, now, join(name), false);
    }),
    ...(isObject(additionalProperties) ? exposedParams(additionalProperties, others, join('*'), false) : []),
    ...(isObject(items) ? exposedParams(items, schemaOrNull(after?.items), `${at}[]`, false) : []),
  ];
}

const propertiesOf = ({ properties }: JsonObject): JsonObject => (isObject(properties) ? properties : {});
const schemaOrNull = (schema: unknown): JsonObject | null => (isObject(schema) ? schema : null);

/** The place that the parameters of a command are sealed for. */
export const commandParamsPlace = (commandId: Uuid): SealedPlace => ({
  purpose: 'command parameters',
  aad: `command:${commandId}`,
});

/** The same for a step of a plan, or for its compensation. */
export const stepParamsPlace = (planId: Uuid, stepId: string, part: 'step' | 'compensation'): SealedPlace => ({
  purpose: 'command parameters',
  aad: `${part}:${planId}:${stepId}`,
});

export const sealParams = ({ seal }: Pick<Sealer, 'seal'>, params: JsonObject, place: SealedPlace): string =>
  seal(JSON.stringify(params), place);

/** Throws `SealBroken` without the master key that sealed them. */
export const openParams = ({ open }: Pick<Sealer, 'open'>, sealed: string, place: SealedPlace): JsonObject =>
  JSON.parse(open(sealed, place)) as JsonObject;
