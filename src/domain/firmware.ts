import { hash } from 'node:crypto';
import { compare, parse } from 'semver';
import type { Uuid } from './values.ts';

// The rules of firmware releases (contract §6); where they are kept and served is elsewhere.

export const firmwareStatuses = ['draft', 'released', 'withdrawn'] as const;
export type FirmwareStatus = (typeof firmwareStatuses)[number];

/** Bytes of an uploaded artifact. */
export const MAX_ARTIFACT_BYTES = 64 * 1024 * 1024;
export const MAX_VERSION_LENGTH = 64;
export const MAX_URL_LENGTH = 2_048;

/** A semantic version as semver.org writes it: no `v` before it, no blanks around it. */
export const isVersion = (text: string): boolean =>
  text.length <= MAX_VERSION_LENGTH && /^\d[0-9A-Za-z.+-]*$/.test(text) && parse(text) !== null;

/** The version that decides: build metadata has no part in precedence (SemVer 2.0.0 §10). */
export const withoutBuild = (version: string): string => version.split('+', 1)[0] as string;

/** What an update is looked for by. */
export interface RolloutRelease {
  id: Uuid;
  version: string;
  rolloutPercent: number;
}

/**
 * A device's place in a release's rollout, 0–99: the SHA-256 digest of the UTF-8 text `<release id>|<device id>`, both in
 * lower case, read as one unsigned big-endian number, modulo 100. Every release draws its own order.
 */
export function rolloutBucket(releaseId: Uuid, deviceId: Uuid): number {
  return Number(BigInt(`0x${hash('sha256', `${releaseId}|${deviceId}`.toLowerCase())}`) % 100n);
}

/** Without a device only a full rollout holds whoever asks. */
const isInRollout = ({ id, rolloutPercent }: RolloutRelease, deviceId: Uuid | null): boolean =>
  rolloutPercent >= 100 || (deviceId !== null && rolloutBucket(id, deviceId) < rolloutPercent);

/** The highest of the released versions above the current one whose rollout holds the device. */
export function findUpdate<Release extends RolloutRelease>(
  released: readonly Release[],
  currentVersion: string,
  deviceId: Uuid | null,
): Release | null {
  const above = released.filter(({ version }) => compare(version, currentVersion) > 0);
  return above.sort((a, b) => compare(b.version, a.version)).find((release) => isInRollout(release, deviceId)) ?? null;
}

/**
 * Why a URL given by hand cannot be taken, or null. The device fetches it, never the service: what its name resolves to
 * is for the device to look at, and here only what no device could mean is refused.
 */
export function artifactUrlFault(text: string): string | null {
  const url = text.length <= MAX_URL_LENGTH ? URL.parse(text) : null;
  if (url === null || !/^https?:\/\/[^/]/i.test(text)) return 'must be an absolute http or https URL';
  if (/[\s\p{Cc}\\]/u.test(text)) return 'must hold no blanks, control characters or backslashes';
  if (url.username !== '' || url.password !== '') return 'must hold no credentials';
  if (url.hash !== '') return 'must have no fragment';
  if (unreachableHost.test(url.hostname)) return 'names no host that a device could fetch from';
  return null;
}

/** Unspecified, link-local (where clouds keep their metadata) and multicast addresses; URL parsing has made them canonical. */
const unreachableHost = /^(0\.|169\.254\.|22[4-9]\.|23\d\.|25[0-5]\.|\[::\]$|\[fe[89ab]|\[ff|\[::ffff:a9fe:)/;
