import type { RJSFSchema, UiSchema } from '@rjsf/utils';
import { useMemo } from 'react';
import type { listReleases } from '../../../src/operations/firmware/firmware.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import type { DeviceRecord } from '../devices/device-name.tsx';
import type { CapabilityRecord } from '../devices/manifest.tsx';
import { formSchemaOf, openSchemaOf, type Releases } from './form-schema.ts';

interface ParamSchemas {
  schema: RJSFSchema;
  ui: UiSchema;
  /** Released firmware for the firmware update action; null for any other action. */
  releases: Releases | null;
}

/** Form schema for the parameters of an action of a device. With `isOpen`, parameters can be left open. */
export function useParamSchema(
  capability: CapabilityRecord,
  device: Pick<DeviceRecord, 'device_type'>,
  { isOpen = false } = {},
): ParamSchemas {
  const releases = useReleases(capability, device);
  return useMemo(() => {
    const given = isOpen ? openSchemaOf(capability.paramSchema) : capability.paramSchema;
    const { schema, ui } = formSchemaOf(given, releases, { isOpen });
    return { schema: schema as RJSFSchema, ui, releases };
  }, [capability, releases, isOpen]);
}

function useReleases(
  { action }: CapabilityRecord,
  { device_type }: Pick<DeviceRecord, 'device_type'>,
): Releases | null {
  const isUpdate = action === 'update_firmware';
  const query = new URLSearchParams({ device_type, status: 'released', limit: '200' });
  const { data } = useGet<ResponseBody<typeof listReleases>>(`/v1/firmware?${query}`, { enabled: isUpdate });
  return useMemo(
    () => (isUpdate && data !== undefined ? data.releases.map(({ id, version }) => ({ id, version })) : null),
    [isUpdate, data],
  );
}
