import { useMemo } from 'react';
import { knownAction } from '../../../src/domain/capability-registry.ts';
import { pathNamesOf } from '../../../src/domain/history/sample.ts';
import { steppedProperties } from '../../../src/domain/stepped-properties.ts';
import { paramUnits, propertyUnits, unitInName } from '../../../src/domain/units.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { type NameOf, type UnitOf, valueName } from '../ui/values.tsx';
import { lookUp } from './known-units.ts';
import { type ManifestRecord, manifestPath } from './manifest.tsx';

/** Units of reported properties by the device's manifest. Without one, those that are in the names. */
export const stateUnits = (manifest: ManifestRecord | undefined): UnitOf =>
  lookUp(propertyUnits(manifest?.capabilities ?? [], manifest?.properties));

/** Whether the numbers of a series last until the next one, by the device's manifest. */
export function isSteppedIn(manifest: ManifestRecord | undefined): (property: string) => boolean {
  const stepped = manifest === undefined ? null : steppedProperties(manifest.capabilities, manifest.properties);
  return (property) => stepped?.has(pathNamesOf(property).join('.')) ?? false;
}

/** Names of reported properties by the device's manifest; without a label, those that devices send. */
export function stateNames(manifest: ManifestRecord | undefined): NameOf {
  const labels = new Map(
    Object.entries(manifest?.properties ?? {}).flatMap(([path, { label }]) =>
      label === undefined || path.startsWith('$') ? [] : [[pathNamesOf(path).join('.'), label] as const],
    ),
  );
  return (path, name) => labels.get(path) ?? valueName(name);
}

/** Units of an action's parameters and of the state that it changes. The manifest is read for unknown actions only. */
export function useActionUnits(deviceId: string, action: string): { params: UnitOf; state: UnitOf } {
  const { may } = useSession();
  const known = knownAction(action);
  const { data } = useGet<ManifestRecord>(manifestPath(deviceId), { enabled: known === undefined && may('user') });
  return useMemo(() => {
    const capability = known ?? data?.capabilities.find((one) => one.action === action);
    return {
      params: capability === undefined ? unitInName : lookUp(paramUnits(capability)),
      state: lookUp(propertyUnits(known === undefined ? (data?.capabilities ?? []) : [known], data?.properties)),
    };
  }, [known, data, action]);
}
