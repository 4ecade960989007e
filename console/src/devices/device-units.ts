import { useMemo } from 'react';
import { knownAction } from '../../../src/domain/capability-registry.ts';
import { paramUnits, propertyUnits, unitInName } from '../../../src/domain/units.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import type { UnitOf } from '../ui/values.tsx';
import { lookUp } from './known-units.ts';
import { type ManifestRecord, manifestPath } from './manifest.tsx';

/** Units of reported properties by the device's manifest. Without one, those that are in the names. */
export const stateUnits = (manifest: ManifestRecord | undefined): UnitOf =>
  lookUp(propertyUnits(manifest?.capabilities ?? []));

/** Units of an action's parameters and of the state that it changes. The manifest is read for unknown actions only. */
export function useActionUnits(deviceId: string, action: string): { params: UnitOf; state: UnitOf } {
  const { may } = useSession();
  const known = knownAction(action);
  const { data } = useGet<ManifestRecord>(manifestPath(deviceId), { enabled: known === undefined && may('user') });
  return useMemo(() => {
    const capability = known ?? data?.capabilities.find((one) => one.action === action);
    return {
      params: capability === undefined ? unitInName : lookUp(paramUnits(capability)),
      state: lookUp(propertyUnits(known === undefined ? (data?.capabilities ?? []) : [known])),
    };
  }, [known, data, action]);
}
