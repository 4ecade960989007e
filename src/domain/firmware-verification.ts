import { meantVersion, withoutBuild } from './firmware.ts';
import type { GatewayFacts } from './gateway.ts';
import { isObject } from './json/value.ts';
import type { Json, JsonObject } from './values.ts';

// Verification of `update_firmware` by the version in a `hello` (docs/decisions/0063). Other actions are verified by the
// reported state.

export const UPDATE_FIRMWARE = 'update_firmware';
/** Default `verify_within_s` of an update: a device restarts before its next `hello`. */
export const FIRMWARE_VERIFY_WITHIN_S = 300;

/**
 * The version that a `hello` after the update must report; null for other actions, and for devices that have never reported a version,
 * which would never be verified.
 */
export function expectedFirmware({ action, device, supplement }: GatewayFacts): JsonObject | null {
  const version = supplement?.version;
  if (action !== UPDATE_FIRMWARE || device?.reportsFirmware !== true || typeof version !== 'string') return null;
  return { firmware: version };
}

/** Whether only a version is expected. A report of state without `firmware` is then not compared. */
export const expectsFirmware = (expected: Json): expected is { firmware: string } =>
  isObject(expected) && typeof expected.firmware === 'string' && Object.keys(expected).length === 1;

/**
 * Whether two texts name the same version: devices also report `v1.4.2` or `1.4`. Build metadata is ignored, as in the
 * precedence of versions (Semantic Versioning 2.0.0, 10).
 */
export const isSameFirmware = (one: string, other: string): boolean => one === other || meant(one) === meant(other);

function meant(text: string): string {
  const version = meantVersion(text);
  return version === null ? text : withoutBuild(version);
}
