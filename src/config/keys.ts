import { createPrivateKey, createSecretKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError, type ReadSetting } from './setting-readers.ts';
import type { SettingName } from './settings.ts';

/** An Ed25519 key pair. What is secret sits in a `KeyObject`, which shows nothing when it is printed. */
export interface SigningPair {
  privateKey: KeyObject;
  /** 32 raw bytes, base64url. */
  publicKey: string;
}

export interface Keys {
  /** 32 bytes. */
  master: KeyObject;
  masterPrevious: KeyObject | null;
  tokenSigning: SigningPair;
  deviceSigning: SigningPair;
}

/** A key comes from its variable, else from its file in `DATA_DIR`, which is made when there is none. */
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
const tokenSource = pairSource('TOKEN_SIGNING_KEY', 'token-signing.jwk');
const deviceSource = pairSource('DEVICE_SIGNING_KEY', 'device-signing.jwk');

/**
 * The service's keys. With `DATABASE_URL` they must be variables: a file made by one process would be a key that the
 * next process of the same database does not have.
 */
export function readKeys(read: ReadSetting, dataDir: string): Keys {
  const required = read('DATABASE_URL') !== null;
  for (const { variable, shape } of [masterSource, tokenSource, deviceSource]) {
    if (required && read(variable) === null) throw new ConfigError(variable, `is required with DATABASE_URL: ${shape}`);
  }
  // Every variable is looked at before a file is made.
  const master = fromVariable(read, masterSource);
  const previous = fromVariable(read, { ...masterSource, variable: 'MASTER_KEY_PREVIOUS' });
  const token = fromVariable(read, tokenSource);
  const device = fromVariable(read, deviceSource);
  return {
    master: master ?? fromFile(dataDir, masterSource),
    masterPrevious: previous,
    tokenSigning: token ?? fromFile(dataDir, tokenSource),
    deviceSigning: device ?? fromFile(dataDir, deviceSource),
  };
}

/** The one key that signing an internal token takes; it works beside a running service with the same file. */
export function readTokenSigning(read: ReadSetting, dataDir: string): SigningPair {
  const configured = fromVariable(read, tokenSource);
  if (configured === null && read('DATABASE_URL') !== null) {
    throw new ConfigError(tokenSource.variable, `is required with DATABASE_URL: ${tokenSource.shape}`);
  }
  return configured ?? fromFile(dataDir, tokenSource);
}

function fromVariable<Key>(read: ReadSetting, source: KeySource<Key>): Key | null {
  const text = read(source.variable);
  if (text === null) return null;
  const key = source.parse(text);
  if (key === null) throw new ConfigError(source.variable, `must be ${source.shape}`);
  return key;
}

function fromFile<Key>(dataDir: string, source: KeySource<Key>): Key {
  const path = join(dataDir, source.file);
  const unusable = (problem: string) => new ConfigError(source.variable, `is not set, and its file ${path} ${problem}`);
  let text = readKeyFile(path, unusable);
  if (text === null) {
    makeKeyFile(dataDir, path, source.make());
    text = readKeyFile(path, unusable);
  }
  const key = text === null ? null : source.parse(text.trim());
  if (key === null) throw unusable(`does not hold ${source.shape}`);
  return key;
}

function readKeyFile(path: string, unusable: (problem: string) => ConfigError): string | null {
  try {
    // Windows has no such mode.
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

/** Whole and durable under its name, or not there: two processes that make it at once agree on the first. */
function makeKeyFile(dataDir: string, path: string, text: string): void {
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(temporary, `${text}\n`, { flag: 'wx', mode: 0o600, flush: true });
    linkIfAbsent(temporary, path);
  } catch (error) {
    throw new ConfigError('DATA_DIR', `cannot take a key file at ${path} (${codeOf(error)})`);
  }
}

/** Unlike `renameSync` it leaves a file that is there alone. */
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

function parsePair(text: string): SigningPair | null {
  let jwk: unknown;
  try {
    jwk = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof jwk !== 'object' || jwk === null) return null;
  const { kty, crv, d, x } = jwk as Record<string, unknown>;
  if (kty !== 'OKP' || crv !== 'Ed25519' || typeof d !== 'string' || typeof x !== 'string') return null;
  try {
    const privateKey = createPrivateKey({ key: { kty, crv, d, x }, format: 'jwk' });
    // Node derives the public half from `d` and never looks at `x`.
    if (privateKey.export({ format: 'jwk' }).x !== x) return null;
    return { privateKey, publicKey: x };
  } catch {
    return null;
  }
}
