import type { RequestListener } from 'node:http';
import { type ConsoleParts, makeConsoleListener } from '../edges/console/listener.ts';
import { makeBuiltFiles } from '../edges/shared/built-files.ts';

/** The same path in the package and in a checkout, where `npm run build:pages` writes it. */
const BUILT = new URL('../../dist/', import.meta.url);

/** The operator console, mounted at the path segment of its name. */
export const consoleMount = (parts: Omit<ConsoleParts, 'files'>): { console: RequestListener } => ({
  console: makeConsoleListener({ ...parts, files: makeBuiltFiles(new URL('console/', BUILT)) }),
});

/** The pages of the API reference. */
export const referenceFiles = () => makeBuiltFiles(new URL('reference/', BUILT));
