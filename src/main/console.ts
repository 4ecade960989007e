import type { RequestListener } from 'node:http';
import { makeConsoleFiles } from '../edges/console/console-files.ts';
import { type ConsoleParts, makeConsoleListener } from '../edges/console/listener.ts';

/** Beside the compiled service in the package, and where `npm run build:console` puts it in a checkout. */
const BUILT = new URL('../../dist/console/', import.meta.url);

/** The operator's console, for the path segment of its name. */
export const consoleMount = (parts: Omit<ConsoleParts, 'files'>): { console: RequestListener } => ({
  console: makeConsoleListener({ ...parts, files: makeConsoleFiles(BUILT) }),
});
