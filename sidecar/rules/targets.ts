import type { PlannerDevice } from '../planner-types.ts';
import { indexOfPhrase, singularize, tokenize } from './text-normalizer.ts';

// Finds the devices that a phrase names: by name, by room, by kind.

export interface TargetMatch {
  devices: readonly PlannerDevice[];
  /** The phrase names single devices, not a group such as a room or a kind. */
  named: boolean;
  /** The phrase means all devices. */
  broad: boolean;
}

/** Names of device kinds, by category. Without a category in the manifest, the kind is taken from the name or type. */
const kindSynonyms: Readonly<Record<string, readonly string[]>> = {
  light: ['light', 'lamp', 'lighting', 'bulb'],
  switch: ['switch', 'plug', 'socket', 'outlet'],
  climate: ['climate', 'thermostat', 'heating', 'heater', 'radiator', 'air conditioning', 'air conditioner', 'aircon'],
  lock: ['lock', 'door'],
  cover: ['cover', 'blind', 'curtain', 'shutter', 'shade', 'awning'],
  valve: ['valve', 'water'],
  sensor: ['sensor'],
  appliance: ['appliance'],
  controller: ['controller', 'hub', 'house', 'alarm'],
};

const EVERYTHING_WORDS = new Set([
  'everything',
  'all',
  'every',
  'each',
  'device',
  'it',
  'them',
  'home',
  'house',
  'here',
  'there',
]);
const FILLER_WORDS = new Set(['in', 'of', 'at', 'on', 'for', 'from', 'all', 'every', 'each', 'both', 'room']);

type DevicePredicate = (device: PlannerDevice) => boolean;
const anyDevice: DevicePredicate = () => true;

/**
 * Null if the phrase matches nothing. An exact device name has priority if one of those devices supports the effect: a
 * sensor with the name “Door” is not the target of `lock the door`.
 */
export function findTargets(
  target: string,
  devices: readonly PlannerDevice[],
  supportsEffect: DevicePredicate = anyDevice,
): TargetMatch | null {
  const words = tokenize(target);
  if (words.every((word) => EVERYTHING_WORDS.has(word) || FILLER_WORDS.has(word)))
    return { devices, named: false, broad: true };
  const exact = devices.filter((device) => sameWords(nameWords(device), words));
  const named = exact.length > 0 ? { devices: exact, named: true, broad: false } : null;
  return exact.some(supportsEffect) ? named : (findByRoomKindOrName(words, devices) ?? named);
}

/** Matches by room and kind, or by a part of a name. */
function findByRoomKindOrName(words: readonly string[], devices: readonly PlannerDevice[]): TargetMatch | null {
  const { rest, inRoom } = extractRoom(words, devices);
  const left = rest.filter((word) => !FILLER_WORDS.has(word) && !EVERYTHING_WORDS.has(word));
  if (inRoom !== null && left.length === 0) return { devices: inRoom, named: false, broad: false };
  const among = inRoom ?? devices;
  const kind = kindOf(left);
  if (kind !== null) {
    const ofKind = among.filter((device) => isOfKind(device, kind));
    if (ofKind.length > 0) return { devices: ofKind, named: false, broad: false };
  }
  const byName = devices.filter((device) => words.every((word) => nameWords(device).includes(word)));
  if (byName.length > 0) return { devices: byName, named: true, broad: false };
  const described = among.filter((device) => left.every((word) => isDescribedBy(device, word)));
  return described.length > 0 && left.length > 0 ? { devices: described, named: true, broad: false } : null;
}

/**
 * `the lights in the bedroom and the kitchen`: a room without a noun takes the noun of another target of the same verb.
 */
export function findTargetsInList(
  target: string,
  otherTargets: readonly string[],
  devices: readonly PlannerDevice[],
  supportsEffect: DevicePredicate,
): TargetMatch | null {
  if (nounInRoom(target, devices) === '') {
    for (const other of otherTargets) {
      const noun = nounInRoom(other, devices);
      if (noun) return findTargets(`${target} ${noun}`, devices, supportsEffect);
    }
  }
  return findTargets(target, devices, supportsEffect);
}

/**
 * The noun next to a room name: empty if there is only the room, null if the phrase names no room or exactly one
 * device.
 */
function nounInRoom(target: string, devices: readonly PlannerDevice[]): string | null {
  const words = tokenize(target);
  if (devices.some((device) => sameWords(nameWords(device), words))) return null;
  const { rest, inRoom } = extractRoom(words, devices);
  return inRoom && rest.filter((word) => !FILLER_WORDS.has(word) && !EVERYTHING_WORDS.has(word)).join(' ');
}

/** True if a memory or measurement with this subject concerns the device. */
export function isAbout(subject: string, device: PlannerDevice): boolean {
  const words = tokenize(subject);
  const room = device.room === null ? [] : tokenize(device.room);
  const name = nameWords(device);
  return (
    (room.length > 0 && indexOfPhrase(room, words) >= 0) ||
    (name.length > 0 && indexOfPhrase(name, words) >= 0) ||
    subject.trim() === device.id
  );
}

/** True if the subject names a room or a device of this home. */
export const namesAnyDevice = (subject: string, devices: readonly PlannerDevice[]): boolean =>
  devices.some((device) => isAbout(subject, device));

const nameWords = (device: PlannerDevice): readonly string[] => tokenize(device.name ?? '');

const sameWords = (one: readonly string[], other: readonly string[]): boolean =>
  one.length > 0 && one.length === other.length && indexOfPhrase(one, other) === 0;

/** Finds the longest room name in the phrase. Returns the rest of the phrase and the devices of that room. */
function extractRoom(words: readonly string[], devices: readonly PlannerDevice[]) {
  let best: readonly string[] = [];
  for (const { room } of devices) {
    const name = room === null ? [] : tokenize(room);
    if (name.length > best.length && indexOfPhrase(name, words) >= 0) best = name;
  }
  if (best.length === 0) return { rest: words, inRoom: null };
  const at = indexOfPhrase(best, words);
  return {
    rest: [...words.slice(0, at), ...words.slice(at + best.length)],
    inRoom: devices.filter(({ room }) => room !== null && sameWords(tokenize(room), best)),
  };
}

function kindOf(words: readonly string[]): string | null {
  const phrase = words.join(' ');
  const matches = (synonyms: readonly string[] = []) =>
    synonyms.includes(phrase) || (words.length > 0 && words.every((word) => synonyms.includes(word)));
  return Object.keys(kindSynonyms).find((kind) => matches(kindSynonyms[kind])) ?? null;
}

/** The kind `light` includes switches that are named after a lamp. */
function isOfKind(device: PlannerDevice, kind: string): boolean {
  if (device.category === kind) return true;
  if (kind === 'light' ? device.category !== 'switch' && device.category !== null : device.category !== null)
    return false;
  const words = [...nameWords(device), ...tokenize(device.type)];
  return (kindSynonyms[kind] ?? []).some((synonym) => words.includes(synonym));
}

function isDescribedBy(device: PlannerDevice, word: string): boolean {
  const words = [...nameWords(device), ...tokenize(device.type), ...tokenize(device.room ?? ''), device.category ?? ''];
  return words.map(singularize).includes(word);
}
