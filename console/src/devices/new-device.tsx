import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useState } from 'react';
import { Link } from 'wouter';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { Loading, Note } from '../ui/feedback.tsx';
import { deviceHref } from './device-name.tsx';
import {
  deviceProgram,
  isLoopback,
  type NewDeviceIdentity,
  type ProgramLanguage,
  programLanguages,
} from './device-programs.ts';
import { useDeviceUpdates } from './use-device-updates.ts';
import './list.css';
import './new-device.css';

// The library that makes QR codes is loaded on demand.
const DeviceQr = lazy(async () => ({ default: (await import('./device-qr.tsx')).DeviceQr }));

interface NewDeviceProps {
  device: NewDeviceIdentity;
  onClose(): void;
}

/** Shows the secret of a new device until the dialog is closed, programs that use it, and whether the device has connected. */
export function NewDevice({ device, onClose: close }: NewDeviceProps) {
  return (
    <Dialog title="The device is registered" onClose={close}>
      <p>Copy the secret now. It is shown only once.</p>
      <code className="secret">{device.device_secret}</code>
      <FirstHello id={device.device_id} />
      <Programs device={device} />
      <QrCode device={device} />
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

function QrCode({ device }: { device: NewDeviceIdentity }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>QR code</summary>
      <p className="quiet small">
        It contains the values as JSON, also the secret: show it only to the app or the tool that configures the device.
      </p>
      {isOpen && (
        <Suspense fallback={<Loading what="Loading QR code" />}>
          <DeviceQr device={device} />
        </Suspense>
      )}
    </details>
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
    <Note tone="quiet">Waiting for its first message …</Note>
  );
}

const needs: Record<ProgramLanguage, string> = {
  Shell:
    'Needs mosquitto-clients, openssl and jq. Reports its state, then waits 30 seconds for one command and carries it out. It is shown as offline while it waits, because it opens a session for each message, but a command reaches it.',
  Python: 'Needs the package paho-mqtt, 1.6 or 2 (pip install paho-mqtt). Runs until Ctrl-C.',
  JavaScript:
    'Needs Node.js 22 or newer, and in the same folder: npm install @twinkeep/device. In a checkout of Twinkeep, npm pack -w @twinkeep/device makes a file that npm install accepts.',
  Arduino: 'Needs an ESP32, its boards package and the library PubSubClient. Fill in your Wi-Fi.',
};

function Programs({ device }: { device: NewDeviceIdentity }) {
  const [language, setLanguage] = useState<ProgramLanguage>('Shell');
  const [copied, setCopied] = useState<ProgramLanguage | null>(null);
  const guides = useQuery({
    queryKey: ['device guides'],
    queryFn: async () => ({
      devices: (await import('../../../docs/devices.md?raw')).default,
      esp32: (await import('../../../docs/esp32.md?raw')).default,
    }),
    staleTime: Number.POSITIVE_INFINITY,
  }).data;
  const program = guides === undefined ? '' : deviceProgram(language, device, guides);
  return (
    <>
      <p>
        {language === 'Arduino'
          ? 'Paste this into a new sketch of the Arduino IDE to run a light as this device:'
          : 'Paste this into a terminal to run a simulated light as this device:'}
      </p>
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
      {device.category !== 'light' && (
        <Note tone="warn">
          The program is an example for a light. For this device, change the properties that it reports and the actions
          that it carries out.
        </Note>
      )}
      {language === 'Arduino' && isLoopback(device) && (
        <Note tone="warn">
          The service listens on a loopback address, which an ESP32 cannot reach. Start the service with the address of
          its computer in your network, such as HOST=192.168.1.2 npm start, and replace HOST in the sketch with it.
        </Note>
      )}
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
