import { isObject } from '../../../src/domain/json/value.ts';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
/** Values that differ in each run, such as ids and times. */
const MADE_UP = new Set([
  'key',
  'prefix',
  'slug',
  'url',
  'version',
  'email',
  'deviceSecret',
  'newSecret',
  'extId',
  'notes',
  'checksum',
  'keyId',
  'publicKey',
  'verificationCode',
  'certificate',
  'fingerprint',
]);

const camel = (name: string): string => name.replace(/(?<=.)_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * Normalizes a response: replaces values that differ in each run, and unifies the spelling of names and statuses. Null
 * members are removed. Equal results of all edges are then deeply equal.
 */
export function same(value: unknown, omitted: readonly string[] = [], name = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => same(one, omitted, name));
  if (isObject(value)) {
    if ('_seconds' in value) return '<time>';
    return Object.fromEntries(
      Object.entries(value)
        .filter(([member, one]) => one !== null && member !== '__typename' && !omitted.includes(member))
        .map(([member, one]) => [camel(member), same(one, omitted, camel(member))]),
    );
  }
  if (MADE_UP.has(name)) return `<${typeof value}>`;
  if (typeof value !== 'string') return value;
  if (TIME.test(value)) return '<time>';
  return value
    .replace(UUID, '<id>')
    .replace(/^(key|firmware-key|group):.*/, '$1:<name>')
    .toUpperCase()
    .replace(/[^A-Z0-9<>]+/g, '_');
}
