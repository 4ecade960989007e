import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FailedError, UsageError } from './errors.ts';

/** What `twinkeep login` keeps of one service. */
export interface Credential {
  token: string;
  /** ISO 8601 in UTC. */
  expires_at: string;
  /** Who signed in, for people to read. */
  user: string;
}

/** By the URL of the service, without a slash at the end. */
export type Credentials = Record<string, Credential>;

/** Empty where there is no file. Throws `Usage` where others can read it, or it is none of ours. */
export function readCredentials(path: string): Credentials {
  let text: string;
  try {
    // Windows has no such mode.
    if (process.platform !== 'win32' && (statSync(path).mode & 0o077) !== 0) {
      throw new UsageError(`${path} can be read by others; run chmod 600 on it`);
    }
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return {};
    throw new UsageError(`${path} cannot be read (${code})`);
  }
  const kept = parseCredentials(text);
  if (kept === null)
    throw new UsageError(`${path} does not hold what twinkeep login writes; remove it and sign in again`);
  return kept;
}

/** Keeps the credential, or with null forgets it. Whole or not at all; nobody else can read the file at any moment. */
export function saveCredential(path: string, url: string, credential: Credential | null): void {
  const { [url]: _, ...others } = readCredentials(path);
  const kept: Credentials = credential === null ? others : { ...others, [url]: credential };
  const draft = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(draft, `${JSON.stringify(kept, null, 2)}\n`, { flag: 'wx', mode: 0o600, flush: true });
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new FailedError(`${path} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

function parseCredentials(text: string): Credentials | null {
  try {
    const kept: unknown = JSON.parse(text);
    if (typeof kept !== 'object' || kept === null || Array.isArray(kept)) return null;
    return Object.values(kept).every(isCredential) ? (kept as Credentials) : null;
  } catch {
    return null;
  }
}

function isCredential(value: unknown): value is Credential {
  if (typeof value !== 'object' || value === null) return false;
  const { token, expires_at, user } = value as Partial<Record<keyof Credential, unknown>>;
  return typeof token === 'string' && typeof expires_at === 'string' && typeof user === 'string';
}
