import { fileURLToPath } from 'node:url';

/*
 * How tests start Node. Both settings save processor time at the start of a process and change nothing of what it does: a
 * service on the embedded database needs about half as much. The cache is keyed by Node's version and by the sources.
 */

/** WebAssembly is compiled once, and not optimized beside the first statements. */
export const nodeFlags = ['--liftoff-only'];

/** The environment of such a process, without what the test run has in its own. */
export const nodeEnv: Record<string, string> = {
  PATH: process.env.PATH ?? '',
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/twinkeep/compiled', import.meta.url)),
};
