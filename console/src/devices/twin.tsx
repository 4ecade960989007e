import type { getDeviceActivity } from '../../../src/operations/devices/device-activity.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { Empty } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { counted } from '../ui/text-format.ts';
import { fullTime, Time, zone } from '../ui/time.tsx';
import { useRecentChange } from '../ui/use-recent-change.ts';
import { type NameOf, type UnitOf, Value } from '../ui/values.tsx';
import type { DeviceRecord } from './device-name.tsx';
import { stateNames, stateUnits } from './device-units.ts';
import { type ManifestRecord, manifestPath } from './manifest.tsx';

export type Activity = ResponseBody<typeof getDeviceActivity>['activity'];

export const useDeviceActivity = (id: string) =>
  useGet<ResponseBody<typeof getDeviceActivity>>(`/v1/devices/${id}/activity`, { refetchIntervalMs: 15_000 });

/** Reported state of a device, one row per property. */
export function DeviceTwin({ device: { id, state, state_version, revoked } }: { device: DeviceRecord }) {
  const activity = useDeviceActivity(id).data?.activity;
  const manifest = useGet<ManifestRecord>(manifestPath(id)).data;
  const unitOf = stateUnits(manifest);
  const nameOf = stateNames(manifest);
  const names = Object.keys(state).sort();
  return (
    <section className="card" aria-labelledby="twin">
      <header>
        <h2 id="twin">Twin</h2>
        <p className="quiet small">{counted(state_version, 'report')}</p>
      </header>
      {names.length === 0 ? (
        <Empty icon="device" title="No state reported yet.">
          Reported properties appear here immediately.
        </Empty>
      ) : (
        <Table label="Reported state" columns={['Property', 'Value', 'Reported']}>
          {names.map((name) => (
            <Property key={name} {...{ name, activity, unitOf, nameOf, revoked }} value={state[name]} />
          ))}
        </Table>
      )}
    </section>
  );
}

interface PropertyProps {
  name: string;
  value: unknown;
  activity: Activity | undefined;
  unitOf: UnitOf;
  nameOf: NameOf;
  revoked: boolean;
}

function Property({ name, value, activity, unitOf, nameOf, revoked }: PropertyProps) {
  const hasChanged = useRecentChange(JSON.stringify(value));
  return (
    <tr className={hasChanged ? 'recently-changed' : ''}>
      <th scope="row">{nameOf(name, name)}</th>
      <td>
        <Value of={value} path={name} unitOf={unitOf} nameOf={nameOf} />
      </td>
      <td className="quiet">{activity === undefined ? '…' : <ReportedAt {...{ name, activity, revoked }} />}</td>
    </tr>
  );
}

interface ReportedAtProps extends Pick<PropertyProps, 'name' | 'revoked'> {
  activity: Activity;
}

/** Time of the last report. The service keeps it in memory, and removes it when it revokes the device. */
function ReportedAt({ name, activity: { properties, state_at, since }, revoked }: ReportedAtProps) {
  const at = properties[name];
  if (at !== undefined) return <Time at={at} />;
  if (state_at === null) return '—';
  if (state_at < since) return <Time at={state_at} />;
  if (revoked) return 'before the revocation';
  return <span title={`Service started ${fullTime(since)} ${zone}`}>before the last restart or revocation</span>;
}
