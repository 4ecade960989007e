import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// Imports only modules of Node.js: it is used where others are missing.

const root = fileURLToPath(new URL('../..', import.meta.url));

/** How to install the module that `error` reports as missing; null for any other error. */
export function installHint(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const { code, path = '' } = error as NodeJS.ErrnoException;
  // A relative import is not looked up before its file is read (main.ts).
  const isUnreadable = code === 'ENOENT' && path.startsWith(root) && /\.[jt]s$/.test(path);
  if (code !== 'ERR_MODULE_NOT_FOUND' && !isUnreadable) return null;
  const name = isUnreadable ? path : /^Cannot find (?:package|module) '([^']+)'/.exec(error.message)?.[1];
  const part = name === undefined ? 'A part of twinkeep' : `A part of twinkeep, ${name.replace(root, '')},`;
  // Only a checkout has the lock file.
  const command = existsSync(`${root}/package-lock.json`) ? `npm ci (in ${root})` : 'npm install --global twinkeep';
  return `${part} is not installed. Install it with: ${command}`;
}
