import { InvalidArgumentError } from 'commander';
import { SHARD_COUNT } from '../domain/shards.ts';
import type { Json, JsonObject } from '../domain/values.ts';

const UNITS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** `90`, `90s`, `15m`, `1h`, `2d` → seconds. */
export function parseDurationS(text: string): number {
  const match = /^(\d{1,8})([smhd])?$/.exec(text);
  const value = Number(match?.[1]) * UNITS[(match?.[2] ?? 's') as keyof typeof UNITS];
  if (!(value > 0)) throw new InvalidArgumentError('It must be a duration such as 30m: a number with s, m, h or d.');
  return value;
}

/** A duration from now such as `30d`, or a date → ISO 8601. */
export function parseExpiry(text: string): string {
  if (/^\d+[smhd]?$/.test(text)) return new Date(Date.now() + parseDurationS(text) * 1000).toISOString();
  const at = Date.parse(text);
  if (Number.isNaN(at)) {
    throw new InvalidArgumentError('It must be a duration such as 30d, or a date such as 2027-01-01T00:00:00Z.');
  }
  return new Date(at).toISOString();
}

/** A duration before now such as `24h`, or a date → ISO 8601. */
export function parsePast(text: string): string {
  if (/^\d+[smhd]?$/.test(text)) return new Date(Date.now() - parseDurationS(text) * 1000).toISOString();
  const at = Date.parse(text);
  if (Number.isNaN(at)) {
    throw new InvalidArgumentError('It must be a duration such as 24h, or a date such as 2027-01-01T00:00:00Z.');
  }
  return new Date(at).toISOString();
}

export const parseIntegerBetween =
  (min: number, max: number) =>
  (text: string): number => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
    return value;
  };

/** A number of processes from 1 to 256, the number of shards, or `auto`. */
export const parseProcessCount = (text: string): number | 'auto' =>
  text === 'auto' ? text : parseIntegerBetween(1, SHARD_COUNT)(text);

export function parsePositiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('It must be a number greater than 0.');
  return value;
}

/** Collects the values of a repeatable option. */
export const collectOption = (text: string, previous: readonly string[] | undefined): string[] => [
  ...(previous ?? []),
  text,
];

export function parseJsonObject(text: string): JsonObject {
  const value = tryParseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidArgumentError('It must be a JSON object.');
  }
  return value;
}

/** `level=40 mode=heat` → `{level: 40, mode: "heat"}`: a value that is valid JSON is parsed, any other is a string. */
export function parseAssignments(texts: readonly string[]): JsonObject {
  const object: JsonObject = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw new InvalidArgumentError(`'${text}' must have the form name=value.`);
    const value = text.slice(at + 1);
    const json = tryParseJson(value);
    // An assignment of `__proto__` would set the prototype instead of a property.
    Object.defineProperty(object, text.slice(0, at), { value: json === undefined ? value : json, enumerable: true });
  }
  return object;
}

function tryParseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
