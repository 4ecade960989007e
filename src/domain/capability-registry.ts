import { type ActionDefinition, actionsByCategory, maintenanceActions } from './capability-actions.ts';
import type { Capability, Manifest } from './manifest.ts';
import type { Uuid } from './values.ts';

export type Category = keyof typeof actionsByCategory;

export const categoryNames = Object.keys(actionsByCategory) as Category[];

// Frozen, because all devices with an automatic manifest share these objects.
function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(freeze);
  return Object.freeze(value);
}

const numbered = (definitions: ActionDefinition[]): Capability[] =>
  freeze(definitions.map((definition, index) => ({ id: index + 1, ...definition })));

const manifests = new Map(
  categoryNames.map((name) => [name, numbered([...actionsByCategory[name], ...maintenanceActions])] as const),
);
const byAction = new Map<string, ActionDefinition>(
  [...Object.values(actionsByCategory).flat(), ...maintenanceActions].map((definition) => [
    definition.action,
    freeze(definition),
  ]),
);
const registry = numbered([...byAction.values()]);

/** The global registry: each action once, with ids from 1. Frozen. */
export const capabilities = (): readonly Capability[] => registry;

/** Category → names of its actions. */
export const categories = (): Record<Category, string[]> =>
  Object.fromEntries([...manifests].map(([name, list]) => [name, list.map(({ action }) => action)])) as Record<
    Category,
    string[]
  >;

/** The registry's definition of an action, if it has one. */
export const knownAction = (action: string): ActionDefinition | undefined => byAction.get(action);

/**
 * The name of an action without case, white space and `_ - . :`. People and models read `Open-Valve` as `open_valve`, so
 * the spelling must not change the safety class.
 */
export const foldedAction = (action: string): string => action.toLowerCase().replace(/[\s_.:-]/g, '');

const byFoldedAction = new Map([...byAction.values()].map((one) => [foldedAction(one.action), one]));

/** The registry's action of this name, or of a name that differs only in case, white space and `_ - . :`. */
export const similarAction = (action: string): ActionDefinition | undefined =>
  byAction.get(action) ?? byFoldedAction.get(foldedAction(action));

/** Whether an action, in any spelling, is internal to the protocol: refused in requests and in a tenant's manifests. */
export const isRestricted = (action: string): boolean => similarAction(action)?.safetyClass === 'RESTRICTED';

// Category names and their synonyms in device types.
const categoriesByTypePart = new Map<string, Category>([
  ...categoryNames.map((name) => [name, name] as const),
  ['relay', 'switch'],
  ['microcontroller', 'controller'],
]);

/**
 * The category of a device type: its last category name or synonym. `Smart Switch` and `esp32-relay` are switches,
 * `doorLockSensor` is a sensor. The type is divided at all characters except letters and digits, and before a capital
 * after a small letter or a digit.
 */
export function categoryOf(deviceType: string): Category | null {
  const parts = deviceType.replace(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})/gu, ' ').split(/[^\p{L}\p{N}]+/u);
  const part = parts.findLast((one) => categoriesByTypePart.has(one.toLowerCase()));
  return part === undefined ? null : (categoriesByTypePart.get(part.toLowerCase()) as Category);
}

/** The actions that the registry has for a category. Shared and frozen. */
export const shippedCapabilities = (category: Category): Capability[] => manifests.get(category) as Capability[];

/**
 * The manifest that a new device gets from its category, by default that of its type; null without one. The capabilities
 * are shared and frozen.
 */
export function automaticManifest(device: {
  deviceId: Uuid;
  tenantId: Uuid;
  deviceType: string;
  category?: Category | undefined;
}): Manifest | null {
  const category = device.category ?? categoryOf(device.deviceType);
  if (category === null) return null;
  const { deviceId, tenantId } = device;
  return {
    deviceId,
    tenantId,
    category,
    version: 1,
    own: false,
    capabilities: shippedCapabilities(category),
  };
}
