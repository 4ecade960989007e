import { actionsByCategory } from '../../../src/domain/capability-actions.ts';
import { type Category, categoryOf, knownAction } from '../../../src/domain/capability-registry.ts';
import { paramUnits, propertyUnits, unitInName } from '../../../src/domain/units.ts';
import type { UnitOf } from '../ui/values.tsx';

// Units of the actions that the service knows, for lists that do not load manifests.

/** The unit in the map, or else in the name. All devices report their battery in percent (docs/devices.md). */
export const lookUp =
  (units: ReadonlyMap<string, string>): UnitOf =>
  (path) =>
    units.get(path) ?? unitInName(path) ?? (path === 'battery' ? '%' : undefined);

const byCategory = new Map<Category, UnitOf>();

/** Units of reported properties by the category of a device type, for lists that do not load manifests. */
export function categoryUnits(deviceType: string): UnitOf {
  const category = categoryOf(deviceType);
  if (category === null) return unitInName;
  const known = byCategory.get(category) ?? lookUp(propertyUnits(actionsByCategory[category]));
  byCategory.set(category, known);
  return known;
}

/** Units of the parameters of an action that the service knows; otherwise those that are in the names. */
export function knownParamUnits(action: string): UnitOf {
  const known = knownAction(action);
  return known === undefined ? unitInName : lookUp(paramUnits(known));
}
