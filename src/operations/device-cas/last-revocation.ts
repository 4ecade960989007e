import type { EpochMs } from '../../domain/values.ts';
import type { StoredDeviceKey } from '../../store/contract/devices.ts';

/** When the device of these keys was last revoked; 0 if it never was. */
export const lastRevocationOf = (history: readonly StoredDeviceKey[]): EpochMs =>
  Math.max(0, ...history.map(({ status, endedAt }) => (status === 'revoked' ? (endedAt ?? 0) : 0)));
