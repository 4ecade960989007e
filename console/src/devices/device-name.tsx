import { Link } from 'wouter';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { abbreviateId } from '../ui/text-format.ts';

export type DeviceRecord = ResponseBody<typeof getDevice>['device'];

export const deviceHref = (id: string): string => `/devices/${id}`;

export const deviceNameOf = ({ id, name, device_type }: Pick<DeviceRecord, 'id' | 'name' | 'device_type'>): string =>
  name ?? `${device_type} ${abbreviateId(id)}`;

/** The device's name if the user can read devices, otherwise the end of its ID. */
export function useDeviceName(id: string): string {
  const { may } = useSession();
  const { data } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${id}`, { enabled: may('user') });
  return data === undefined ? `device ${abbreviateId(id)}` : deviceNameOf(data.device);
}

/** `shown` is the name in a preview, which a confirmation covers. */
export function DeviceName({ id, shown }: { id: string; shown?: string | null | undefined }) {
  const { may } = useSession();
  const current = useDeviceName(id);
  const name = shown ?? current;
  return may('user') ? <Link href={deviceHref(id)}>{name}</Link> : name;
}
