import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Note } from '../ui/feedback.tsx';
import { deviceHref } from './device-name.tsx';
import { deviceProgram, type NewDeviceIdentity, type ProgramLanguage, programLanguages } from './device-programs.ts';
import { useDeviceUpdates } from './use-device-updates.ts';
import './list.css';
import './new-device.css';

interface NewDeviceProps {
  device: NewDeviceIdentity;
  onClose(): void;
}

/** Shows the secret of a new device until the dialog is closed, programs that use it, and when the device says hello. */
export function NewDevice({ device, onClose: close }: NewDeviceProps) {
  return (
    <Dialog title="The device is registered" onClose={close}>
      <p>Copy the secret now. It is shown only once.</p>
      <code className="secret">{device.device_secret}</code>
      <FirstHello id={device.device_id} />
      <Programs device={device} />
      <div className="actions">
        <Link className="button" href={deviceHref(device.device_id)} onClick={close}>
          Open device
        </Link>
        <button type="button" className="button primary" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

/** Turns green at the first message of the device and stays so, also if the device disconnects. */
function FirstHello({ id }: { id: string }) {
  const { data } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${id}`);
  useDeviceUpdates(id);
  const hasCome = data !== undefined && (data.device.online || data.device.last_seen !== null);
  return hasCome ? (
    <Note tone="good">The device is connected.</Note>
  ) : (
    <Note tone="quiet">Waiting for its first hello …</Note>
  );
}

const needs: Record<ProgramLanguage, string> = {
  Shell: 'Needs mosquitto-clients, openssl and jq. Waits 30 seconds for one command and carries it out.',
  Python: 'Needs paho-mqtt 1.6 or 2.',
  JavaScript: 'Needs Node.js and the package twinkeep in the same folder.',
};

function Programs({ device }: { device: NewDeviceIdentity }) {
  const [language, setLanguage] = useState<ProgramLanguage>('Shell');
  const [copied, setCopied] = useState<ProgramLanguage | null>(null);
  const guide = useQuery({
    queryKey: ['device guide'],
    queryFn: async () => (await import('../../../docs/devices.md?raw')).default,
    staleTime: Number.POSITIVE_INFINITY,
  }).data;
  const program = guide === undefined ? '' : deviceProgram(language, device, guide);
  return (
    <>
      <p>Paste this into a terminal to run a simulated light as this device:</p>
      <fieldset className="choices">
        <legend className="unseen">Language</legend>
        {programLanguages.map((name) => (
          <label key={name}>
            <input type="radio" name="language" checked={language === name} onChange={() => setLanguage(name)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <p className="quiet small">{needs[language]}</p>
      <textarea
        className="program mono"
        aria-label={`Program in ${language}`}
        readOnly
        rows={9}
        wrap="off"
        value={program}
      />
      <p role="status" className="quiet small">
        {copied === language ? 'Copied.' : ''}
      </p>
      {'clipboard' in navigator && (
        <button
          type="button"
          className="button"
          disabled={program === ''}
          onClick={() => void navigator.clipboard.writeText(program).then(() => setCopied(language))}
        >
          Copy program
        </button>
      )}
    </>
  );
}
