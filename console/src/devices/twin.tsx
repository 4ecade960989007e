import { useMemo, useRef } from 'react';
import type { Json } from '../../../src/domain/values.ts';
import type { getDeviceActivity } from '../../../src/operations/devices/device-activity.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { chartedProperties, PropertyTrend, trendProperties, useWasVisible } from '../charts/property-trend.tsx';
import { type TrendPoint, useTrends } from '../charts/trends.ts';
import { Empty } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { counted } from '../ui/text-format.ts';
import { fullTime, Time, zone } from '../ui/time.tsx';
import { useRecentChange } from '../ui/use-recent-change.ts';
import { type NameOf, type UnitOf, Value } from '../ui/values.tsx';
import type { DeviceRecord } from './device-name.tsx';
import { isSteppedIn, stateNames, stateUnits } from './device-units.ts';
import { type ManifestRecord, manifestPath } from './manifest.tsx';
import { Why } from './why.tsx';

export type Activity = ResponseBody<typeof getDeviceActivity>['activity'];

export const useDeviceActivity = (id: string) =>
  useGet<ResponseBody<typeof getDeviceActivity>>(`/v1/devices/${id}/activity`, { refetchIntervalMs: 15_000 });

/** Reported state of a device, one row per property. */
export function DeviceTwin({ device: { id, state, state_version, revoked } }: { device: DeviceRecord }) {
  const activity = useDeviceActivity(id).data?.activity;
  const manifest = useGet<ManifestRecord>(manifestPath(id)).data;
  const unitOf = stateUnits(manifest);
  const nameOf = stateNames(manifest);
  const stepped = useMemo(() => isSteppedIn(manifest), [manifest]);
  const names = Object.keys(state).sort();
  const place = useRef<HTMLElement>(null);
  const trends = useTrends(id, trendProperties(state).sort(), { enabled: useWasVisible(place) });
  return (
    <section ref={place} className="card" aria-labelledby="twin">
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
          {names.map((name) => {
            const [property = ''] = chartedProperties(name, state[name]);
            return (
              <Property
                key={name}
                {...{ id, name, activity, unitOf, nameOf, revoked }}
                value={state[name]}
                points={trends.get(property)}
                isStepped={stepped(property)}
              />
            );
          })}
        </Table>
      )}
    </section>
  );
}

interface PropertyProps {
  id: string;
  name: string;
  value: Json | undefined;
  points: readonly TrendPoint[] | undefined;
  isStepped: boolean;
  activity: Activity | undefined;
  unitOf: UnitOf;
  nameOf: NameOf;
  revoked: boolean;
}

function Property({ id, name, value, points, isStepped, activity, unitOf, nameOf, revoked }: PropertyProps) {
  const hasChanged = useRecentChange(JSON.stringify(value));
  return (
    <tr className={hasChanged ? 'recently-changed' : ''}>
      <th scope="row">{nameOf(name, name)}</th>
      <td>
        <div className="value-and-trend">
          <div>
            <Value of={value} path={name} unitOf={unitOf} nameOf={nameOf} />
            <Why deviceId={id} label={nameOf(name, name)} {...{ name, value }} />
          </div>
          <PropertyTrend deviceId={id} {...{ name, value, points, isStepped }} />
        </div>
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
