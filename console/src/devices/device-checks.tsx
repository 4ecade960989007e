import { useId, useState } from 'react';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { deviceNameOf } from './device-name.tsx';
import { useAllDevices } from './use-all-devices.ts';
import '../administration/administration.css';
import './device-checks.css';

interface DeviceChecksProps {
  /** Not offered. */
  without: readonly string[];
  chosen: ReadonlySet<string>;
  onChange(chosen: ReadonlySet<string>): void;
}

/** A list of devices with check boxes and a search field. */
export function DeviceChecks({ without, chosen, onChange }: DeviceChecksProps) {
  const { rows, isComplete, problem, reload } = useAllDevices();
  const [search, setSearch] = useState('');
  const searchId = useId();
  const offered = rows.filter(({ id, revoked }) => !revoked && !without.includes(id));
  const shown = offered.filter((device) =>
    `${deviceNameOf(device)} ${device.device_type}`.toLowerCase().includes(search.trim().toLowerCase()),
  );
  const toggle = (id: string): void => {
    const after = new Set(chosen);
    if (!after.delete(id)) after.add(id);
    onChange(after);
  };
  if (rows.length === 0 && problem !== null) return <LoadError problem={problem} retry={reload} />;
  if (rows.length === 0 && !isComplete) return <Loading what="Loading devices" />;
  if (offered.length === 0) return <p className="quiet">All devices are in it already, or none is registered.</p>;
  return (
    <>
      <label htmlFor={searchId}>Search by name or type</label>
      <input id={searchId} type="search" value={search} onChange={({ target }) => setSearch(target.value)} />
      <fieldset className="checks device-checks">
        <legend>Devices, {chosen.size.toLocaleString()} chosen</legend>
        {shown.map((device) => (
          <label key={device.id}>
            <input type="checkbox" checked={chosen.has(device.id)} onChange={() => toggle(device.id)} />
            <span>
              {deviceNameOf(device)} <span className="quiet small">{device.device_type}</span>
            </span>
          </label>
        ))}
        {shown.length === 0 && <p className="quiet">No matching devices.</p>}
      </fieldset>
      {!isComplete && <p className="quiet small">Only the newest {rows.length.toLocaleString()} devices are listed.</p>}
    </>
  );
}
