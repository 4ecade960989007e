import type { UiSchema } from '@rjsf/utils';
import { isUnit, nameWithoutUnit, unitInName } from '../../../src/domain/units.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { hasWriteOnly } from '../../../src/domain/write-only-params.ts';
import { sentenceCase } from '../ui/text-format.ts';

// Form schema for the parameters of a capability.

export type Releases = readonly { id: string; version: string }[];

/** A slider with more steps cannot be set precisely. */
const MAX_SLIDER_STEPS = 400;
const MAX_RADIOS = 4;

interface ParamSchema {
  type?: string;
  title?: string;
  enum?: Json[];
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
  writeOnly?: boolean;
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const propertiesOf = ({ properties }: JsonObject): Record<string, JsonObject> =>
  isObject(properties) ? (properties as Record<string, JsonObject>) : {};

/** With `isOpen`, each field can be empty: a slider, radio buttons and a checkbox always have a value. */
export function formSchemaOf(
  schema: JsonObject,
  releases: Releases | null,
  { isOpen = false } = {},
): { schema: JsonObject; ui: UiSchema } {
  const parts: Record<string, JsonObject> = {};
  const ui: UiSchema = {};
  for (const [name, part] of Object.entries(propertiesOf(schema))) {
    const unit = isUnit(part.unit) ? part.unit : unitInName(name);
    const title = sentenceCase(nameWithoutUnit(name));
    parts[name] = { title: unit === undefined ? title : `${title} (${unit})`, ...part };
    const widget = isOpen ? openWidgetFor(part as ParamSchema) : widgetFor(part as ParamSchema);
    if (widget !== null) ui[name] = { 'ui:widget': widget };
    if (widget === 'password') ui[name] = { ...ui[name], 'ui:autocomplete': 'off' };
  }
  const named = parts.firmware_id;
  if (releases !== null && named !== undefined && releases.length > 0) {
    parts.firmware_id = { ...named, title: 'Version', description: '', enum: releases.map(({ id }) => id) };
    ui.firmware_id = { 'ui:enumNames': releases.map(({ version }) => version) };
  }
  return { schema: { ...schema, properties: parts }, ui };
}

function widgetFor({ type, minimum, maximum, multipleOf, enum: values, writeOnly }: ParamSchema): string | null {
  if (writeOnly === true && type === 'string' && values === undefined) return 'password';
  if (values !== undefined) return values.length <= MAX_RADIOS ? 'radio' : null;
  const isNumber = type === 'integer' || type === 'number';
  if (!isNumber || minimum === undefined || maximum === undefined) return null;
  // Without `multipleOf`, a slider would allow only whole numbers.
  const step = multipleOf ?? (type === 'integer' ? 1 : null);
  return step !== null && (maximum - minimum) / step <= MAX_SLIDER_STEPS ? 'range' : null;
}

const openWidgetFor = ({ type, enum: values }: ParamSchema): string | null =>
  type === 'boolean' || values !== undefined ? 'select' : null;

/**
 * The parameters that may be left open for later: none is required, each has a field that can be empty, and those that are
 * `writeOnly` are missing, because they are not stored.
 */
export function openSchemaOf({ required: _, ...schema }: JsonObject): JsonObject {
  const parts = Object.entries(propertiesOf(schema)).filter(([, part]) => !hasWriteOnly(part));
  return { ...schema, properties: Object.fromEntries(parts) };
}

/** The parameters that a button sends: without those that a later manifest marks `writeOnly`, whose values are masked. */
export const givenParams = (schema: JsonObject, stored: JsonObject): JsonObject => {
  const parts = propertiesOf(schema);
  const isShown = ([name]: [string, Json]): boolean =>
    !Object.hasOwn(parts, name) || !hasWriteOnly(parts[name] as JsonObject);
  return Object.fromEntries(Object.entries(stored).filter(isShown));
};

/**
 * The required parameters that `given` does not have, and with them those that are `writeOnly`, for a form before the
 * command is requested. Null if nothing is missing.
 */
export function missingSchemaOf(schema: JsonObject, given: JsonObject): JsonObject | null {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const isOpen = ([name, part]: [string, JsonObject]): boolean =>
    hasWriteOnly(part) || (required.includes(name) && given[name] === undefined);
  const open = Object.entries(propertiesOf(schema)).filter(isOpen);
  const names = new Set(open.map(([name]) => name));
  const missing = required.filter((name) => names.has(name as string));
  return missing.length === 0 ? null : { ...schema, properties: Object.fromEntries(open), required: missing };
}

/**
 * Initial values of the form: the reported state, if the capability maps a parameter to a property; otherwise the smallest
 * valid value of a required parameter, so that the form shows what it would send.
 */
export function initialParams(
  { paramSchema, expectedState }: { paramSchema: JsonObject; expectedState?: JsonObject | undefined },
  state: JsonObject,
): JsonObject {
  const now = expectedState === undefined ? {} : paramsFromState(expectedState, state);
  const required = Array.isArray(paramSchema.required) ? paramSchema.required : [];
  const entries = Object.entries(propertiesOf(paramSchema)).flatMap(([name, part]): [string, Json][] => {
    const { type, minimum } = part as ParamSchema;
    const reported = now[name];
    if (reported !== undefined && typeof reported !== 'object') return [[name, reported]];
    if (part.default !== undefined || !required.includes(name)) return [];
    if (type === 'boolean') return [[name, false]];
    return widgetFor(part as ParamSchema) === 'range' && minimum !== undefined ? [[name, minimum]] : [];
  });
  return Object.fromEntries(entries);
}

/** The parameters that would lead to this state: the inverse of the expected-state template. */
function paramsFromState(template: JsonObject, state: JsonObject): JsonObject {
  const found: JsonObject = {};
  for (const [name, part] of Object.entries(template)) {
    const value = state[name];
    if (!isObject(part) || value === undefined) continue;
    if (typeof part.$param === 'string') found[part.$param] = value;
    else if (isObject(value)) Object.assign(found, paramsFromState(part, value));
  }
  return found;
}
