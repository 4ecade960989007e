import { type ConsoleParts, makeConsoleRoutes } from '../edges/console/routes.ts';
import { makeBuiltFiles } from '../edges/shared/built-files.ts';

/** The same path in the package and in a checkout, where `npm run build:pages` writes it. */
const BUILT = new URL('../../dist/', import.meta.url);

/** Routes of the operator console. */
export const consoleRoutes = (parts: Omit<ConsoleParts, 'files'>) =>
  makeConsoleRoutes({ ...parts, files: makeBuiltFiles(new URL('console/', BUILT)) });

/** The pages of the API reference. */
export const referenceFiles = () => makeBuiltFiles(new URL('reference/', BUILT));
