import { isIP, isIPv6 } from 'node:net';
import { isLoopbackHost } from '../domain/loopback-host.ts';
import type { SettingName } from './settings.ts';

/** Environment variables, of the process or of a test. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An invalid setting. The message names the variable, and never contains the value, which may be a secret. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  readonly variable: string;
  constructor(variable: string, problem: string) {
    super(`${variable} ${problem}`);
    this.variable = variable;
  }
}

/** Reads one variable; null if it is unset or empty, because `compose` files pass unset variables as empty. */
export type ReadSetting<Name extends string = SettingName> = (name: Name) => string | null;

export function makeSettingReader<Name extends string = SettingName>(env: Environment): ReadSetting<Name> {
  return (name) => {
    const value = env[name]?.trim();
    return value === undefined || value === '' ? null : value;
  };
}

export const readInteger = (read: ReadSetting, name: SettingName, fallback: number, min: number, max: number): number =>
  readNumber(read, name, { fallback, min, max, alternative: '' });

/** A TCP port; 0 lets the system choose. `alternative`: what an error names besides numbers, such as ` or off`. */
export const readPort = (read: ReadSetting, name: SettingName, fallback: number, alternative = ''): number =>
  readNumber(read, name, { fallback, min: 0, max: 65_535, alternative });

function readNumber(
  read: ReadSetting,
  name: SettingName,
  { fallback, min, max, alternative }: { fallback: number; min: number; max: number; alternative: string },
): number {
  const text = read(name);
  if (text === null) return fallback;
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new ConfigError(name, `must be a whole number from ${min} to ${max}${alternative}`);
}

export function readChoice<const Value extends string>(
  read: ReadSetting,
  name: SettingName,
  values: readonly Value[],
  fallback: Value,
): Value {
  const text = read(name);
  if (text === null) return fallback;
  const found = values.find((value) => value === text);
  if (found === undefined) throw new ConfigError(name, `must be one of ${values.join(', ')}`);
  return found;
}

const HOST_NAME = /^(?!\d+(\.\d+)*$)[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$/;

/** An IP address or a host name to listen on; `[::1]` loses its brackets. */
export function readHost(read: ReadSetting, name: SettingName, fallback: string): string {
  const text = read(name)?.replace(/^\[(.*)\]$/, '$1') ?? fallback;
  if (isIP(text) === 0 && !HOST_NAME.test(text)) throw new ConfigError(name, 'must be an IP address or a host name');
  return text;
}

/** Whether the address means all interfaces, so that clients cannot use it to reach the service. */
export const isWildcard = (address: string): boolean =>
  address === '0.0.0.0' || (isIPv6(address) && /^[0:.]*$|^::ffff:(0\.0\.0\.0|0:0)$/i.test(address));

/** Origins of pages, as browsers send them: scheme, host and port if it is not the default one. */
export function readOrigins(read: ReadSetting, name: SettingName): string[] {
  const origins = (read(name) ?? '').split(',').flatMap((one) => one.trim() || []);
  for (const origin of origins) {
    const isOrigin = /^https?:\/\//.test(origin) && URL.parse(origin)?.origin === origin;
    if (!isOrigin)
      throw new ConfigError(name, 'must be origins such as https://app.example.com, without a path, `*` or `null`');
  }
  return [...new Set(origins)];
}

/** An absolute URL with one of the schemes, without user, query and fragment. Trailing slashes are removed. */
export function readPublicUrl(read: ReadSetting, name: SettingName, schemes: readonly string[]): string | null {
  const text = read(name);
  if (text === null) return null;
  const url = parseUrl(text, schemes);
  if (url === null) throw new ConfigError(name, `must be a URL that starts with ${schemeList(schemes)}`);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigError(name, 'must be a URL without user, query and fragment');
  }
  return text.replace(/\/+$/, '');
}

/** Throws `ConfigError` for a URL without TLS, unless it is on this machine. */
export function refuseClearUrl(name: SettingName, url: string | null): void {
  if (url !== null && /^http:/i.test(url) && !isLoopbackHost(new URL(url).hostname)) {
    throw new ConfigError(name, 'must start with https://, except for a loopback address');
  }
}

/** The URL of a server; it may contain a user and a password. */
export function readServerUrl(read: ReadSetting, name: SettingName, schemes: readonly string[]): string | null {
  const text = read(name);
  if (text === null) return null;
  if (parseUrl(text, schemes) === null) {
    throw new ConfigError(name, `must be a URL that starts with ${schemeList(schemes)}`);
  }
  return text;
}

function parseUrl(text: string, schemes: readonly string[]): URL | null {
  const url = URL.parse(text);
  // A URL parser reads `postgres:host` as a path. PostgreSQL URLs may have no host (Unix socket).
  const fits = schemes.some((scheme) => text.toLowerCase().startsWith(`${scheme}://`));
  return url !== null && fits && (url.host !== '' || url.protocol.startsWith('postgres')) ? url : null;
}

const schemeList = (schemes: readonly string[]) => schemes.map((scheme) => `${scheme}://`).join(' or ');

/** `name=number,…`; with `rule.names`, names that are missing keep their value from `fallback`. */
export function readNamedNumbers(
  read: ReadSetting,
  name: SettingName,
  fallback: Readonly<Record<string, number>>,
  rule: { names?: readonly string[]; min: number; max: number },
): Record<string, number> {
  const text = read(name);
  if (text === null) return { ...fallback };
  const found = new Map<string, number>();
  for (const part of text.split(',')) {
    const match = /^\s*([a-z][a-z0-9_-]{0,31}(?:\.[a-z][a-z0-9_-]{0,31})?)\s*=\s*(\d{1,9})\s*$/.exec(part);
    const value = Number(match?.[2]);
    // Only names of a list may have a dot.
    const isName = match?.[1] !== undefined && (rule.names !== undefined || !match[1].includes('.'));
    if (match?.[1] === undefined || !isName || !(value >= rule.min && value <= rule.max)) {
      throw new ConfigError(name, `must be name=number pairs, with numbers from ${rule.min} to ${rule.max}`);
    }
    if (rule.names !== undefined && !rule.names.includes(match[1])) {
      throw new ConfigError(name, `accepts only ${rule.names.join(' and ')}`);
    }
    if (found.has(match[1])) throw new ConfigError(name, 'must not repeat a name');
    found.set(match[1], value);
  }
  return rule.names === undefined ? Object.fromEntries(found) : { ...fallback, ...Object.fromEntries(found) };
}

const PROXY_NAMES = ['loopback', 'linklocal', 'uniquelocal'];

/** Addresses, CIDR ranges, and the names `loopback`, `linklocal` and `uniquelocal`. */
export function readProxies(read: ReadSetting, name: SettingName): string[] {
  const entries = (read(name) ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  for (const entry of entries) {
    const [address = '', bits, ...rest] = entry.split('/');
    const family = isIP(address);
    const width = family === 4 ? 32 : 128;
    const isValid =
      PROXY_NAMES.includes(entry) ||
      (family !== 0 && rest.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= width)));
    if (!isValid) throw new ConfigError(name, 'must be IP addresses or CIDR ranges, separated by commas');
  }
  return entries;
}

/** `host:port`; an IPv6 address is in brackets. */
export function readAddress(read: ReadSetting, name: SettingName): string | null {
  const text = read(name);
  if (text === null) return null;
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(text);
  if (match === null || Number(match[2]) > 65_535) throw new ConfigError(name, 'must be host:port');
  return text;
}
