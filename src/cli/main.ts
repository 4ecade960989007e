#!/usr/bin/env node
import { processIo } from './io.ts';
import { run } from './run.ts';

// The reader of a pipe can close it (EPIPE), as in `twinkeep watch | head`.
process.stdout.on('error', () => process.exit(0));
process.exitCode = await run(processIo(), process.argv.slice(2));
