import { type ActionDefinition, actionsByCategory, maintenanceActions } from './capability-actions.ts';
import type { Capability, Manifest } from './manifest.ts';
import type { Uuid } from './values.ts';

export type Category = keyof typeof actionsByCategory;

export const categoryNames = Object.keys(actionsByCategory) as Category[];

export const isCategory = (name: string): name is Category => Object.hasOwn(actionsByCategory, name);

// All of it is shared by every device that has an automatic manifest, so nothing of it may change.
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

/** The global registry: every action once, ids from 1. Frozen. */
export const capabilities = (): readonly Capability[] => registry;

/** Category → names of its actions. */
export const categories = (): Record<Category, string[]> =>
  Object.fromEntries([...manifests].map(([name, list]) => [name, list.map(({ action }) => action)])) as Record<
    Category,
    string[]
  >;

/** The registry's definition of an action, if it knows it. */
export const knownAction = (action: string): ActionDefinition | undefined => byAction.get(action);

// A model or a person reads `Open-Valve` as `open_valve`, so spelling must not change how dangerous an action is.
const folded = (action: string): string => action.toLowerCase().replace(/[\s_.:-]/g, '');

const byFoldedAction = new Map([...byAction.values()].map((definition) => [folded(definition.action), definition]));

/** The registry's action of this name, or of one that differs from it only in case, blanks and `_ - . :`. */
export const similarAction = (action: string): ActionDefinition | undefined =>
  byAction.get(action) ?? byFoldedAction.get(folded(action));

/** Internal to the protocol, however it is spelled: never by request, and not allowed in a manifest of a tenant's own. */
export const isRestricted = (action: string): boolean => similarAction(action)?.safetyClass === 'RESTRICTED';

/** The device type itself or what follows its last `_` or `-`, where that is a category: `smart_light` is a light. */
export function categoryOf(deviceType: string): Category | null {
  const type = deviceType.toLowerCase();
  const last = type.slice(Math.max(type.lastIndexOf('_'), type.lastIndexOf('-')) + 1);
  return isCategory(type) ? type : isCategory(last) ? last : null;
}

/** The manifest a new device gets from its category; null where its type has none. The capabilities are shared and frozen. */
export function automaticManifest(device: { deviceId: Uuid; tenantId: Uuid; deviceType: string }): Manifest | null {
  const category = categoryOf(device.deviceType);
  if (category === null) return null;
  const { deviceId, tenantId } = device;
  return {
    deviceId,
    tenantId,
    category,
    version: 1,
    own: false,
    capabilities: manifests.get(category) as Capability[],
  };
}
