import { useDeviceName } from '../devices/device-name.tsx';
import { SecretDialog } from '../ui/secret-dialog.tsx';

/** A device's new secret, in the answer to a change of its key. */
export interface NewSecret {
  deviceId: string;
  secret: string;
}

/** Null if the answer has no secret. */
export function newSecretIn({ device_id: deviceId, new_secret: secret }: Record<string, unknown>): NewSecret | null {
  return typeof deviceId === 'string' && typeof secret === 'string' ? { deviceId, secret } : null;
}

/** Shows the secret until the dialog is closed. */
export function DeviceSecret({ of: { deviceId, secret }, close }: { of: NewSecret; close(): void }) {
  const device = useDeviceName(deviceId);
  return <SecretDialog title={`New secret of ${device}`} noun="secret" secret={secret} onClose={close} />;
}
