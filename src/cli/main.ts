#!/usr/bin/env node
import { processIo } from './io.ts';
import { run } from './run.ts';

// Who reads our output may stop: `twinkeep watch | head`.
process.stdout.on('error', () => process.exit(0));
process.exitCode = await run(processIo(), process.argv.slice(2));
