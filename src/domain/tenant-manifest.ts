import { z } from 'zod';
import { isRestricted, knownAction, shippedCapabilities, similarAction } from './capability-registry.ts';
import { categorySchema, safetyClassSchema } from './enum-schemas.ts';
import { isObject } from './json/value.ts';
import { type Capability, type Manifest, type SafetyClass, safetyClasses } from './manifest.ts';
import { propertiesField, propertyErrors } from './manifest-properties.ts';
import { schemaErrors } from './param-schema.ts';
import { done, type FieldError, type Outcome, refuse } from './refusals.ts';
import { actionName, jsonObject, readFields, timeoutSeconds } from './request-fields.ts';
import { paramOf } from './twin.ts';
import { isUnit } from './units.ts';
import type { Json, JsonObject } from './values.ts';
import { hasWriteOnly } from './write-only-params.ts';

// Manifests written by a tenant (contract §5). Automatic manifests come from the registry.

export const MAX_CAPABILITIES = 100;
export const MAX_VERIFY_WITHIN_S = 3_600;
export const MAX_UNITS = 50;
const NO_PARAMS: JsonObject = Object.freeze({ type: 'object', properties: {}, additionalProperties: false });

const capabilityFields = z.strictObject({
  action: actionName,
  description: z.string().max(500).optional(),
  safetyClass: safetyClassSchema.optional(),
  paramSchema: jsonObject.optional(),
  supportsDryRun: z.boolean().optional(),
  expectedState: jsonObject.optional(),
  verify_within_s: z.number().int().min(1).max(MAX_VERIFY_WITHIN_S).optional(),
  timeout_s: timeoutSeconds.optional(),
  units: z
    .record(z.string().min(1).max(128), z.string().refine(isUnit, 'must be 1 to 16 characters without white space'))
    .refine((units) => Object.keys(units).length <= MAX_UNITS, `must have at most ${MAX_UNITS} units`)
    .optional()
    .meta({ description: 'Units of reported properties, by path (`color.hue`)' }),
});

/** The body of a POST: a device's first tenant manifest. */
export const manifestBody = z.strictObject({
  category: categorySchema.optional(),
  capabilities: z.array(capabilityFields).max(MAX_CAPABILITIES).optional().meta({
    description: 'Without it, the device gets the actions of the registry for `category`, which is then required',
  }),
  properties: propertiesField,
});

/** The body of a PUT. The replaced version is given here or in `If-Match`. */
export const manifestUpdateBody = manifestBody.extend({ version: z.number().int().min(1).optional() });

export type ManifestBody = z.infer<typeof manifestBody>;
type CapabilityFields = z.infer<typeof capabilityFields>;

/** Completes and checks a body that passed one of the schemas above. */
export function completeManifest({ capabilities, category, properties = {} }: ManifestBody): Outcome<Capability[]> {
  if (capabilities === undefined) {
    if (category === undefined) return invalid([{ path: 'capabilities', message: 'is required without a category' }]);
    const shipped = shippedCapabilities(category);
    const errors = propertyErrors(properties, shipped);
    return errors.length === 0 ? done(shipped) : invalid(errors);
  }
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  const complete = capabilities.map((given, index): Capability => {
    const at = `capabilities.${index}`;
    const capability = withDefaults(given, index + 1);
    if (seen.has(given.action)) errors.push({ path: `${at}.action`, message: 'is listed twice' });
    seen.add(given.action);
    errors.push(...classErrors(given, at), ...stateErrors(capability, at));
    if (given.paramSchema !== undefined) errors.push(...schemaErrors(given.paramSchema, `${at}.paramSchema`));
    return capability;
  });
  errors.push(...propertyErrors(properties, complete));
  return errors.length === 0 ? done(complete) : invalid(errors);
}

const invalid = (errors: readonly FieldError[]) =>
  refuse('VALIDATION_FAILED', 'The manifest is not valid.', { errors: errors.slice(0, 50) });

/** Reads a POST's body into complete capabilities, numbered from 1. Missing fields are filled in from the registry. */
export function readManifest(input: unknown): Outcome<Capability[]> {
  const body = readFields(manifestBody, input);
  return body.ok ? completeManifest(body.value) : body;
}

// `expectedState` is never taken from the registry: a custom device may report other state.
function withDefaults(given: CapabilityFields, id: number): Capability {
  const known = knownAction(given.action);
  const { action, expectedState, verify_within_s, timeout_s, units } = given;
  return {
    id,
    action,
    description: given.description ?? known?.description ?? '',
    safetyClass: given.safetyClass ?? similarAction(action)?.safetyClass ?? 'NORMAL',
    paramSchema: given.paramSchema ?? known?.paramSchema ?? NO_PARAMS,
    supportsDryRun: given.supportsDryRun ?? expectedState !== undefined,
    ...(expectedState !== undefined && { expectedState }),
    ...(verify_within_s !== undefined && { verify_within_s }),
    ...(timeout_s !== undefined && { timeout_s }),
    ...(units !== undefined && { units }),
  };
}

function classErrors({ action, safetyClass }: CapabilityFields, at: string): FieldError[] {
  if (isRestricted(action)) return [{ path: `${at}.action`, message: 'is internal to the protocol' }];
  const known = similarAction(action);
  if (safetyClass === undefined || known === undefined || rank(safetyClass) >= rank(known.safetyClass)) return [];
  const message = `must not be below ${known.safetyClass}, the registry's class of '${known.action}'`;
  return [{ path: `${at}.safetyClass`, message }];
}

const rank = (safetyClass: SafetyClass): number => safetyClasses.indexOf(safetyClass);

/**
 * Raises actions of a stored manifest to the registry's class of their name. Manifests stored before similar names were
 * compared may be below it. Returns the same object if nothing changes.
 */
export function withClassFloors(manifest: Manifest): Manifest {
  const capabilities = manifest.capabilities.map((capability) => {
    const floor = similarAction(capability.action)?.safetyClass ?? 'NORMAL';
    return rank(capability.safetyClass) < rank(floor) ? { ...capability, safetyClass: floor } : capability;
  });
  return capabilities.every((one, n) => one === manifest.capabilities[n]) ? manifest : { ...manifest, capabilities };
}

function stateErrors({ expectedState, paramSchema }: Capability, at: string): FieldError[] {
  if (expectedState === undefined) return [];
  const params = isObject(paramSchema.properties) ? paramSchema.properties : {};
  const path = `${at}.expectedState`;
  const unknown = [...new Set(unknownOperatorsIn(expectedState))].map((name) => ({
    path,
    message: `'${name}' is not supported: the only name with a dollar sign is {"$param": "<name>"}, alone in its object`,
  }));
  const errors = [...new Set(paramsIn(expectedState))].flatMap((name) => {
    if (!Object.hasOwn(params, name)) return [{ path, message: `'${name}' is not a parameter of this action` }];
    const schema = params[name] as Json;
    // The expected state is stored, shown in previews and compared with the reported state.
    if (isObject(schema) && hasWriteOnly(schema)) return [{ path, message: `'${name}' is write-only` }];
    return [];
  });
  return [...unknown, ...errors];
}

/** Names with a dollar sign in front that are no reference to a parameter: commands with them would never be verified. */
function unknownOperatorsIn(node: Json): string[] {
  if (typeof node !== 'object' || node === null || paramOf(node) !== undefined) return [];
  const names = isObject(node) ? Object.keys(node).filter((name) => name.startsWith('$')) : [];
  return [...names, ...Object.values(node).flatMap(unknownOperatorsIn)];
}

function paramsIn(node: Json): string[] {
  const param = paramOf(node);
  if (param !== undefined) return [param];
  return typeof node === 'object' && node !== null ? Object.values(node).flatMap(paramsIn) : [];
}
