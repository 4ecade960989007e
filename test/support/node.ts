import { fileURLToPath } from 'node:url';

/*
 * How tests start Node. These settings save processor time at the start of a process and change nothing of what it does: a
 * service on the embedded database needs about half as much. The cache is keyed by Node's version and by the sources.
 */

/**
 * Also of the workers of Vitest. WebAssembly is compiled once, and not optimized beside the first statements. The young generation starts
 * with 32 MiB (1 MiB by default): modules that are being loaded are not copied and marked again and again.
 */
export const nodeFlags = ['--liftoff-only', '--min-semi-space-size=32'];

/** The environment of such a process, without what the test run has in its own. */
export const nodeEnv: Record<string, string> = {
  PATH: process.env.PATH ?? '',
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/twinkeep/compiled', import.meta.url)),
};
