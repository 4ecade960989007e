import { encodeQR } from 'qr';
import { useMemo } from 'react';
import type { NewDeviceIdentity } from './device-programs.ts';

/** Modules of white space around the code (ISO/IEC 18004). */
const QUIET_ZONE = 4;

/** The values that a device needs, as JSON in a QR code. It is drawn in the page: nothing is requested. */
export function DeviceQr({ device }: { device: NewDeviceIdentity }) {
  const { mqtt_url, tenant_id, device_id, device_secret, key_version } = device;
  const text = JSON.stringify({ mqtt_url, tenant_id, device_id, device_secret, key_version });
  const { size, path } = useMemo(() => drawingOf(text), [text]);
  return (
    <svg
      className="qr"
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
      role="img"
      aria-label="QR code with the address, the identity and the secret of the device"
    >
      <path d={path} />
    </svg>
  );
}

/** The dark modules as squares of one unit. */
function drawingOf(text: string): { size: number; path: string } {
  const rows = encodeQR(text, 'raw', { ecc: 'medium', border: QUIET_ZONE });
  const squares = rows.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return { size: rows.length, path: squares.join('') };
}
