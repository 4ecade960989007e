#!/usr/bin/env node
import module from 'node:module';
import { fileURLToPath } from 'node:url';

// Before the modules are loaded: a later start takes half the time. Without write permission there is no cache.
module.enableCompileCache?.(fileURLToPath(new URL('../../node_modules/.cache/twinkeep/compiled', import.meta.url)));
const [{ processIo }, { run }] = await Promise.all([import('./io.ts'), import('./run.ts')]);

// The reader of a pipe can close it (EPIPE), as in `twinkeep watch | head`.
process.stdout.on('error', () => process.exit(0));
process.exitCode = await run(processIo(), process.argv.slice(2));
