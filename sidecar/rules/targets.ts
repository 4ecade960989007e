import type { Device } from '../planner-types.ts';
import { indexOfPhrase, singularize, tokenize } from './text-normalizer.ts';

// Which devices somebody means: by name, by room, by what they are.

export interface TargetMatch {
  devices: readonly Device[];
  /** They were named one by one rather than meant with others. */
  named: boolean;
  /** All there is was meant. */
  broad: boolean;
}

/** Words for kinds of devices. A device whose manifest has no category is what its name or its type says. */
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

type DevicePredicate = (device: Device) => boolean;
const anyDevice: DevicePredicate = () => true;

/**
 * Null where the words name nothing that is here. A device of just that name comes first, if it `can`: a sensor that is
 * called “Door” is not what is to be locked.
 */
export function findTargets(
  target: string,
  devices: readonly Device[],
  can: DevicePredicate = anyDevice,
): TargetMatch | null {
  const words = tokenize(target);
  if (words.every((word) => EVERYTHING_WORDS.has(word) || FILLER_WORDS.has(word)))
    return { devices, named: false, broad: true };
  const exact = devices.filter((device) => sameWords(nameWords(device), words));
  const named = exact.length > 0 ? { devices: exact, named: true, broad: false } : null;
  return exact.some(can) ? named : (findByRoomKindOrName(words, devices) ?? named);
}

/** By room and kind, or by some of the words of a name. */
function findByRoomKindOrName(words: readonly string[], devices: readonly Device[]): TargetMatch | null {
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

/** `the lights in the bedroom and the kitchen`: a room beside things in another room means such things there. */
export function findTargetsInList(
  target: string,
  beside: readonly string[],
  devices: readonly Device[],
  can: DevicePredicate,
): TargetMatch | null {
  if (nounInRoom(target, devices) === '') {
    for (const other of beside) {
      const things = nounInRoom(other, devices);
      if (things) return findTargets(`${target} ${things}`, devices, can);
    }
  }
  return findTargets(target, devices, can);
}

/** What is meant in a room: empty for all that is there, null where no room is named or a device is. */
function nounInRoom(target: string, devices: readonly Device[]): string | null {
  const words = tokenize(target);
  if (devices.some((device) => sameWords(nameWords(device), words))) return null;
  const { rest, inRoom } = extractRoom(words, devices);
  return inRoom && rest.filter((word) => !FILLER_WORDS.has(word) && !EVERYTHING_WORDS.has(word)).join(' ');
}

/** Whether a memory or a measurement with this subject is about the device. */
export function isAbout(subject: string, device: Device): boolean {
  const words = tokenize(subject);
  const room = device.room === null ? [] : tokenize(device.room);
  const name = nameWords(device);
  return (
    (room.length > 0 && indexOfPhrase(room, words) >= 0) ||
    (name.length > 0 && indexOfPhrase(name, words) >= 0) ||
    subject.trim() === device.id
  );
}

/** Whether the subject names a room or a device that is here at all. */
export const namesAnyDevice = (subject: string, devices: readonly Device[]): boolean =>
  devices.some((device) => isAbout(subject, device));

const nameWords = (device: Device): readonly string[] => tokenize(device.name ?? '');

const sameWords = (one: readonly string[], other: readonly string[]): boolean =>
  one.length > 0 && one.length === other.length && indexOfPhrase(one, other) === 0;

/** The longest room's name among the words, what is left of them, and what stands in that room. */
function extractRoom(words: readonly string[], devices: readonly Device[]) {
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
  const said = words.join(' ');
  const means = (names: readonly string[] = []) =>
    names.includes(said) || (words.length > 0 && words.every((word) => names.includes(word)));
  return Object.keys(kindSynonyms).find((kind) => means(kindSynonyms[kind])) ?? null;
}

/** `light` holds a switch that is called a lamp, too. */
function isOfKind(device: Device, kind: string): boolean {
  if (device.category === kind) return true;
  if (kind === 'light' ? device.category !== 'switch' && device.category !== null : device.category !== null)
    return false;
  const said = [...nameWords(device), ...tokenize(device.type)];
  return (kindSynonyms[kind] ?? []).some((word) => said.includes(word));
}

function isDescribedBy(device: Device, word: string): boolean {
  const said = [...nameWords(device), ...tokenize(device.type), ...tokenize(device.room ?? ''), device.category ?? ''];
  return said.map(singularize).includes(word);
}
