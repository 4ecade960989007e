import { lazy, Suspense, useId } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import type { DeviceRecord } from '../devices/device-name.tsx';
import { type ManifestRecord, manifestPath, paramNames } from '../devices/manifest.tsx';
import { Loading, Note } from '../ui/feedback.tsx';
import { ActionOptions } from './action-options.tsx';
import { initialParams } from './form-schema.ts';
import type { FormChecks } from './param-fields.tsx';

// The form library is loaded on demand.
const ParamFields = lazy(async () => ({ default: (await import('./param-fields.tsx')).ParamFields }));

export interface ChosenAction {
  action: string;
  params: JsonObject;
}

interface ActionFieldsProps {
  label: string;
  device: Pick<DeviceRecord, 'id' | 'device_type'>;
  /** Null until one is chosen. */
  chosen: ChosenAction | null;
  /** Text of the choice of no action; without it an action is required. */
  none?: string;
  checks: FormChecks;
  onChange(chosen: ChosenAction | null): void;
}

/** Fields for an action of a device and its parameters, as a part of a form. */
export function ActionFields({ label, device, chosen, none, checks, onChange }: ActionFieldsProps) {
  const { data, error } = useGet<ManifestRecord>(manifestPath(device.id));
  // The reported state, which the parameters start with.
  const found = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${device.id}`);
  const id = useId();
  // Restricted actions are internal to the protocol.
  const offered = data?.capabilities.filter(({ safetyClass }) => safetyClass !== 'RESTRICTED') ?? [];
  const capability = offered.find(({ action }) => action === chosen?.action);
  if (error?.status === 404) return <Note tone="bad">The device has no manifest: it accepts no commands.</Note>;
  const problem = error ?? found.error;
  if (data === undefined || found.data === undefined) {
    return problem === null ? <Loading what="Loading actions" /> : <Note tone="bad">{problem.message}</Note>;
  }
  const { state } = found.data.device;
  const choose = (action: string): void => {
    const one = offered.find((offer) => offer.action === action);
    onChange(one === undefined ? null : { action, params: initialParams(one, state) });
  };
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        required={none === undefined}
        value={chosen?.action ?? ''}
        onChange={({ target }) => choose(target.value)}
      >
        <option value="" disabled={none === undefined}>
          {none ?? 'Choose an action'}
        </option>
        <ActionOptions of={offered} />
      </select>
      {capability !== undefined && chosen !== null && paramNames(capability).length > 0 && (
        <Suspense fallback={<Loading what="Loading form" />}>
          <ParamFields
            key={capability.action}
            capability={capability}
            device={device}
            params={chosen.params}
            checks={checks}
            onChange={(params) => onChange({ action: capability.action, params })}
          />
        </Suspense>
      )}
    </>
  );
}
