import { hash } from 'node:crypto';
import compare from 'semver/functions/compare.js';
import parse from 'semver/functions/parse.js';
import type { Uuid } from './values.ts';

// Rules of firmware releases (contract §6). Storage and download are elsewhere.

export const firmwareStatuses = ['draft', 'released', 'withdrawn'] as const;
export type FirmwareStatus = (typeof firmwareStatuses)[number];

/** Maximum size of an uploaded artifact. */
export const MAX_ARTIFACT_BYTES = 64 * 1024 * 1024;
export const MAX_VERSION_LENGTH = 64;
export const MAX_URL_LENGTH = 2_048;

/** Whether a text is a semantic version (semver.org): without a leading `v` or surrounding white space. */
export const isVersion = (text: string): boolean =>
  text.length <= MAX_VERSION_LENGTH && /^\d[0-9A-Za-z.+-]*$/.test(text) && parse(text) !== null;

/**
 * The semantic version that a device means: devices also report `v1.4.2` or `1.4`, and must not be offered what they have.
 * Null if the text has another form.
 */
export function meantVersion(text: string): string | null {
  const [, major, minor = '.0', patch = '.0', rest = ''] =
    /^v?(\d+)(?:(\.\d+)(?:(\.\d+)([-+].*)?)?)?$/i.exec(text) ?? [];
  const version = `${major}${minor}${patch}${rest}`;
  return major !== undefined && isVersion(version) ? version : null;
}

/** The version without build metadata, which is ignored in precedence (SemVer 2.0.0 §10). */
export const withoutBuild = (version: string): string => version.split('+', 1)[0] as string;

/** The part of a release that `findUpdate` needs. */
export interface RolloutRelease {
  id: Uuid;
  version: string;
  rolloutPercent: number;
}

/**
 * A device's bucket in a release's rollout, 0–99: the SHA-256 digest of the UTF-8 text `<release id>|<device id>`, both
 * in lower case, read as an unsigned big-endian number, modulo 100. The order of devices differs between releases.
 */
export function rolloutBucket(releaseId: Uuid, deviceId: Uuid): number {
  return Number(BigInt(`0x${hash('sha256', `${releaseId}|${deviceId}`.toLowerCase())}`) % 100n);
}

/** Whether a release's rollout includes the device; without a device, only a full rollout does. */
const isInRollout = ({ id, rolloutPercent }: RolloutRelease, deviceId: Uuid | null): boolean =>
  rolloutPercent >= 100 || (deviceId !== null && rolloutBucket(id, deviceId) < rolloutPercent);

/** The highest released version above the current one whose rollout includes the device. */
export function findUpdate<Release extends RolloutRelease>(
  released: readonly Release[],
  currentVersion: string,
  deviceId: Uuid | null,
): Release | null {
  const above = released.filter(({ version }) => compare(version, currentVersion) > 0);
  return above.sort((a, b) => compare(b.version, a.version)).find((release) => isInRollout(release, deviceId)) ?? null;
}

/**
 * Why an artifact URL is refused, or null. Only the device fetches the URL, never the service, so the host name is not
 * resolved here; refused are only hosts that no device could fetch from.
 */
export function artifactUrlError(text: string): string | null {
  const url = text.length <= MAX_URL_LENGTH ? URL.parse(text) : null;
  if (url === null || !/^https?:\/\/[^/]/i.test(text)) return 'must be an absolute http or https URL';
  if (/[\s\p{Cc}\\]/u.test(text)) return 'must not contain white space, control characters or backslashes';
  if (url.username !== '' || url.password !== '') return 'must not contain credentials';
  if (url.hash !== '') return 'must not have a fragment';
  if (unreachableHost.test(url.hostname)) return 'must name a host that a device can reach';
  return null;
}

/** Unspecified, link-local (cloud metadata services) and multicast addresses, in the canonical form of URL parsing. */
const unreachableHost = /^(0\.|169\.254\.|22[4-9]\.|23\d\.|25[0-5]\.|\[::\]$|\[fe[89ab]|\[ff|\[::ffff:a9fe:)/;
