import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FailedError, UsageError } from './errors.ts';

/** Credential for one service, saved by `twinkeep login`. */
export interface SavedCredential {
  token: string;
  /** ISO 8601 in UTC. */
  expires_at: string;
  /** Email address or subject of the user, for display. */
  user: string;
}

/** Keyed by the URL of the service, without a trailing slash. */
export type Credentials = Record<string, SavedCredential>;

/**
 * Reads the credentials; empty if the file does not exist. Throws `UsageError` if other users can read it or it is
 * invalid.
 */
export function readCredentials(path: string): Credentials {
  let text: string;
  try {
    // Windows has no POSIX file modes.
    if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
      throw new UsageError(`${path} can be read by other users; run chmod 600 on it`);
    }
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    throw new UsageError(`${path} cannot be read (${code})`);
  }
  const credentials = parseCredentials(text);
  if (credentials === null)
    throw new UsageError(`${path} is not a valid credentials file; remove it and run twinkeep login`);
  return credentials;
}

/** Saves the credential, or removes it with null. Replaces the file atomically; other users can never read it. */
export function saveCredential(path: string, url: string, credential: SavedCredential | null): void {
  const { [url]: _, ...others } = readCredentials(path);
  const credentials: Credentials = credential === null ? others : { ...others, [url]: credential };
  const temporary = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(temporary, `${JSON.stringify(credentials, null, 2)}\n`, { flag: 'wx', mode: 0o600, flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new FailedError(`${path} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

function parseCredentials(text: string): Credentials | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    return Object.values(value).every(isCredential) ? (value as Credentials) : null;
  } catch {
    return null;
  }
}

function isCredential(value: unknown): value is SavedCredential {
  if (typeof value !== 'object' || value === null) return false;
  const { token, expires_at, user } = value as Partial<Record<keyof SavedCredential, unknown>>;
  return typeof token === 'string' && typeof expires_at === 'string' && typeof user === 'string';
}
