import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, type ReadSetting } from './setting-readers.ts';
import type { SettingName } from './settings.ts';

/** An Ed25519 key pair. The private key is a `KeyObject`, so that logging it reveals nothing. */
export interface SigningPair {
  privateKey: KeyObject;
  /** 32 raw bytes, base64url. */
  publicKey: string;
}

/** A key that verifies, and that may sign if its private half is known too. */
export interface AcceptedKey {
  /** Null: it was given as a public JWK. */
  privateKey: KeyObject | null;
  publicKey: string;
}

/**
 * The keys of the service. A next key is accepted or announced and not used yet; a previous key still opens, verifies, or
 * is announced, and with its private half signs for devices that do not know the current one.
 */
export interface Keys {
  /** 32 bytes. */
  master: KeyObject;
  /** Ids of master keys that no longer exist. */
  masterLost: readonly string[];
  masterNext: KeyObject | null;
  masterPrevious: KeyObject | null;
  tokenSigning: SigningPair;
  tokenSigningNext: AcceptedKey | null;
  tokenSigningPrevious: AcceptedKey | null;
  deviceSigning: SigningPair;
  deviceSigningNext: AcceptedKey | null;
  deviceSigningPrevious: AcceptedKey | null;
}

/** What to do about a key file that does not exist; `advice` is the end of the error. */
export type MissingKey = { create: true } | { create: false; advice: string };

/** Source of a key: its variable, else its file in `DATA_DIR`, which is created if missing. */
interface KeySource<Key> {
  variable: SettingName;
  file: string;
  parse(text: string): Key | null;
  make(): string;
  shape: string;
}

const masterSource: KeySource<KeyObject> = {
  variable: 'MASTER_KEY',
  file: 'master.key',
  parse: parseMaster,
  make: () => randomBytes(32).toString('base64'),
  shape: '32 bytes in base64',
};
const pairSource = (variable: SettingName, file: string): KeySource<SigningPair> => ({
  variable,
  file,
  parse: parsePair,
  make: makePair,
  shape: 'a private Ed25519 key as a JWK (kty, crv, d, x)',
});
const acceptedShape = 'an Ed25519 key as a JWK (kty, crv, x), private or public';
const tokenSource = pairSource('TOKEN_SIGNING_KEY', 'token-signing.jwk');
const deviceSource = pairSource('DEVICE_SIGNING_KEY', 'device-signing.jwk');

/**
 * Reads the service's keys. With `DATABASE_URL` the variables are required: other processes of the same database would
 * not have a key file that this process creates.
 */
export function readKeys(read: ReadSetting, dataDir: string): Keys {
  const required = read('DATABASE_URL') !== null;
  for (const { variable, shape } of [masterSource, tokenSource, deviceSource]) {
    if (required && read(variable) === null) throw new ConfigError(variable, `is required with DATABASE_URL: ${shape}`);
  }
  // All variables are validated before a file is created.
  const master = fromVariable(read, masterSource);
  const token = fromVariable(read, tokenSource);
  const device = fromVariable(read, deviceSource);
  const accepted = (variable: SettingName) =>
    fromVariable(read, { variable, parse: parseAccepted, shape: acceptedShape });
  const others = {
    masterLost: readLostIds(read),
    masterNext: fromVariable(read, { ...masterSource, variable: 'MASTER_KEY_NEXT' }),
    masterPrevious: fromVariable(read, { ...masterSource, variable: 'MASTER_KEY_PREVIOUS' }),
    tokenSigningNext: accepted('TOKEN_SIGNING_KEY_NEXT'),
    tokenSigningPrevious: accepted('TOKEN_SIGNING_KEY_PREVIOUS'),
    deviceSigningNext: accepted('DEVICE_SIGNING_KEY_NEXT'),
    deviceSigningPrevious: accepted('DEVICE_SIGNING_KEY_PREVIOUS'),
  };
  return {
    master: master ?? fromFile(dataDir, masterSource),
    tokenSigning: token ?? fromFile(dataDir, tokenSource),
    deviceSigning: device ?? fromFile(dataDir, deviceSource),
    ...others,
  };
}

function readLostIds(read: ReadSetting): string[] {
  const ids =
    read('MASTER_KEYS_LOST')
      ?.split(',')
      .map((id) => id.trim()) ?? [];
  if (!ids.every((id) => /^[\w-]{11}$/.test(id))) {
    throw new ConfigError('MASTER_KEYS_LOST', 'must be ids of master keys, 11 characters each, separated by commas');
  }
  return ids;
}

/** Reads the token signing key only; this is safe while a service runs with the same file. */
export function readTokenSigning(
  read: ReadSetting,
  dataDir: string,
  missingKey: MissingKey = { create: true },
): SigningPair {
  const configured = fromVariable(read, tokenSource);
  if (configured === null && read('DATABASE_URL') !== null) {
    throw new ConfigError(tokenSource.variable, `is required with DATABASE_URL: ${tokenSource.shape}`);
  }
  return configured ?? fromFile(dataDir, tokenSource, missingKey);
}

function fromVariable<Key>(
  read: ReadSetting,
  source: Pick<KeySource<Key>, 'variable' | 'parse' | 'shape'>,
): Key | null {
  const text = read(source.variable);
  if (text === null) return null;
  const key = source.parse(text);
  if (key === null) throw new ConfigError(source.variable, `must be ${source.shape}`);
  return key;
}

function fromFile<Key>(dataDir: string, source: KeySource<Key>, missingKey: MissingKey = { create: true }): Key {
  const path = join(dataDir, source.file);
  const unusable = (problem: string) =>
    new ConfigError(source.variable, `is not set, and its key file ${path} ${problem}`);
  let text = readKeyFile(path, unusable);
  if (text === null) {
    if (!missingKey.create) throw unusable(`does not exist: ${missingKey.advice}`);
    makeKeyFile(dataDir, path, source.make());
    text = readKeyFile(path, unusable);
  }
  const key = text === null ? null : source.parse(text.trim());
  if (key === null) throw unusable(`does not hold ${source.shape}`);
  return key;
}

function readKeyFile(path: string, unusable: (problem: string) => ConfigError): string | null {
  try {
    // Windows has no file modes.
    if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
      throw unusable('can be read by others; run chmod 600 on it');
    }
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
    throw unusable(`cannot be read (${codeOf(error)})`);
  }
}

/** Creates the file atomically and durably. If two processes create it at once, both use the first one. */
function makeKeyFile(dataDir: string, path: string, text: string): void {
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(temporary, `${text}\n`, { flag: 'wx', mode: 0o600, flush: true });
    linkIfAbsent(temporary, path);
  } catch (error) {
    throw new ConfigError('DATA_DIR', `does not accept a key file at ${path} (${codeOf(error)})`);
  }
}

/** Unlike `renameSync`, it does not replace an existing file. */
function linkIfAbsent(temporary: string, path: string): void {
  try {
    linkSync(temporary, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';

function parseMaster(text: string): KeyObject | null {
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return null;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === 32 ? createSecretKey(bytes) : null;
}

function makePair(): string {
  const { kty, crv, x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  return JSON.stringify({ kty, crv, x, d });
}

function parseMembers(text: string): Record<string, unknown> | null {
  try {
    const jwk: unknown = JSON.parse(text);
    return typeof jwk === 'object' && jwk !== null ? { ...jwk } : null;
  } catch {
    return null;
  }
}

function parseAccepted(text: string): AcceptedKey | null {
  const { kty, crv, d, x } = parseMembers(text) ?? {};
  if (d !== undefined) return parsePair(text);
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof x !== 'string') return null;
  try {
    createPublicKey({ key: { kty, crv, x }, format: 'jwk' });
    return { privateKey: null, publicKey: x };
  } catch {
    return null;
  }
}

function parsePair(text: string): SigningPair | null {
  const { kty, crv, d, x } = parseMembers(text) ?? {};
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof d !== 'string' || typeof x !== 'string') return null;
  try {
    const privateKey = createPrivateKey({ key: { kty, crv, d, x }, format: 'jwk' });
    // Node derives the public key from `d` and ignores `x`.
    if (privateKey.export({ format: 'jwk' }).x !== x) return null;
    return { privateKey, publicKey: x };
  } catch {
    return null;
  }
}
