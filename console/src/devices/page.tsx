import { Link } from 'wouter';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { listHomes, listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { CommandPanel } from '../commands/panel.tsx';
import { useSession } from '../session.tsx';
import { Timeline } from '../timeline/timeline.tsx';
import { LoadError, Loading, Note, Pill } from '../ui/feedback.tsx';
import { LastSeen, Time } from '../ui/time.tsx';
import { Fact, Facts, ObjectMembers } from '../ui/values.tsx';
import { CommandHistory } from './command-history.tsx';
import { DeviceChanges } from './device-changes.tsx';
import { type DeviceRecord, deviceNameOf } from './device-name.tsx';
import { DeviceKeys } from './keys.tsx';
import { DeviceManifest } from './manifest.tsx';
import { Connections, Messages } from './messages.tsx';
import { DeviceTags } from './tags.tsx';
import { TelemetryFacts } from './telemetry.tsx';
import { DeviceTwin } from './twin.tsx';
import { useDeviceUpdates } from './use-device-updates.ts';
import './page.css';

/** Page of one device: twin, commands, messages, keys, timeline and manifest. */
export function DevicePage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${id}`, {
    refetchIntervalMs: 30_000,
  });
  useDeviceUpdates(id);
  if (data === undefined || error?.status === 404) {
    return error === null ? (
      <Loading what="Loading device" />
    ) : (
      <LoadError isWholePage problem={error} retry={refetch} />
    );
  }
  const { device } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{deviceNameOf(device)}</h1>
          <p className="quiet device-line">
            <Presence of={device} />
            <span>{device.device_type}</span>
            <Place of={device} />
            {device.battery !== null && <Battery percent={device.battery} />}
          </p>
        </div>
        <p className="quiet">
          <LastSeen at={device.last_seen} />
        </p>
      </header>
      <div className="device-parts">
        <div className="at-start">
          <DeviceTwin device={device} />
        </div>
        <div className="at-end">
          {device.revoked ? (
            <Note tone="bad">
              The device is revoked: its keys are invalid and it accepts no commands. An admin can reinstate it with a
              new key, or delete it.
            </Note>
          ) : (
            <CommandPanel device={device} />
          )}
          <CommandHistory id={id} />
        </div>
        <div className="at-start">
          <DeviceDetails device={device} />
          <DeviceTags device={device} />
          {may('admin') && <DeviceChanges device={device} />}
          {may('admin') && <DeviceKeys id={id} />}
        </div>
        <div className="at-end">
          <Connections id={id} />
          <Messages id={id} revoked={device.revoked} />
        </div>
      </div>
      <Timeline path={`/v1/devices/${id}/timeline`} deviceId={id} />
      <DeviceManifest id={id} />
    </>
  );
}

const Presence = ({ of: { online, revoked } }: { of: DeviceRecord }) =>
  revoked ? (
    <Pill tone="bad">revoked</Pill>
  ) : online ? (
    <Pill tone="good">online</Pill>
  ) : (
    <Pill tone="quiet">offline</Pill>
  );

function Place({ of: { home_id, room_id } }: { of: DeviceRecord }) {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  const rooms = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${home_id}/rooms?limit=200`, {
    enabled: room_id !== null,
  });
  if (home_id === null) return <span>no home</span>;
  const home = homes.data?.homes.find(({ id }) => id === home_id)?.home_name ?? 'home';
  const room = rooms.data?.rooms.find(({ id }) => id === room_id)?.name;
  return (
    <span>
      <Link href={`/devices?home=${home_id}`}>{home}</Link>
      {room !== undefined && (
        <>
          {' '}
          › <Link href={`/devices?home=${home_id}&room=${room_id}`}>{room}</Link>
        </>
      )}
    </span>
  );
}

const LOW_PERCENT = 20;

const Battery = ({ percent }: { percent: number }) => (
  <span className="battery">
    <meter min={0} max={100} low={LOW_PERCENT} value={percent} aria-label="Battery" />
    {Math.round(percent)} %{percent <= LOW_PERCENT && ' (low)'}
  </span>
);

function DeviceDetails({ device }: { device: DeviceRecord }) {
  const { may } = useSession();
  return (
    <section className="card" aria-labelledby="details">
      <header>
        <h2 id="details">Details</h2>
      </header>
      <Facts>
        <Fact name="ID">
          <span className="mono small">{device.id}</span>
        </Fact>
        <Fact name="Firmware">{device.firmware ?? 'not reported'}</Fact>
        {device.telemetry !== null && <TelemetryFacts device={device} of={device.telemetry} />}
        {device.history_paused_until !== null && (
          <Fact name="History">
            <Note tone="warn">
              Not recorded until <Time at={device.history_paused_until} />: the device has reported more than it may
              store a day.
            </Note>
          </Fact>
        )}
        <Fact name="Registered">
          <Time at={device.created_at} />
        </Fact>
        <Fact name="Signing key">
          {device.signing_alg}, version {device.key_version}
        </Fact>
        {Object.keys(device.metadata).length > 0 && (
          <Fact name="Metadata">
            <ObjectMembers of={device.metadata} />
          </Fact>
        )}
        {may('admin') && (
          <Fact name="Actor">
            <Link href={`/actors/device/${device.id}`}>Statechart and journal</Link>
          </Fact>
        )}
      </Facts>
    </section>
  );
}
