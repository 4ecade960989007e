import type { RequestListener } from 'node:http';
import { makeConsoleFiles } from '../edges/console/console-files.ts';
import { type ConsoleParts, makeConsoleListener } from '../edges/console/listener.ts';

/** The same path in the package and in a checkout, where `npm run build:console` writes it. */
const BUILT = new URL('../../dist/console/', import.meta.url);

/** The operator console, mounted at the path segment of its name. */
export const consoleMount = (parts: Omit<ConsoleParts, 'files'>): { console: RequestListener } => ({
  console: makeConsoleListener({ ...parts, files: makeConsoleFiles(BUILT) }),
});
