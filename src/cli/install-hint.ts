import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// Imports only modules of Node.js: it is used where others are missing.

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Folders of the package, in `root`. */
const PACKAGE_FILE = /^(?:src|dist|proto|node_modules)\/.*\.[cm]?[jt]s$/;

/** The package or file that `error` reports as missing; null for any other error. */
function missingPart(error: NodeJS.ErrnoException): string | null {
  switch (error.code) {
    case 'ERR_MODULE_NOT_FOUND':
    case 'MODULE_NOT_FOUND': // of `require`
      return /^Cannot find (?:package|module) '([^']+)'/.exec(error.message)?.[1]?.replace(root, '') ?? '';
    case 'ENOENT': {
      // A relative import: main.ts resolves it without looking for the file.
      const path = error.path?.replace(root, '') ?? '';
      return PACKAGE_FILE.test(path) ? path : null;
    }
    default:
      return null;
  }
}

/** How to install the module that `error` reports as missing; null for any other error. */
export function installHint(error: unknown): string | null {
  const name = error instanceof Error ? missingPart(error) : null;
  if (name === null) return null;
  const part = name === '' ? 'A part of twinkeep' : `A part of twinkeep, ${name},`;
  // Only a checkout has the lock file.
  const command = existsSync(`${root}/package-lock.json`) ? `npm ci (in ${root})` : 'npm install --global twinkeep';
  return `${part} is not installed. Install it with: ${command}`;
}
