#!/usr/bin/env node
import module from 'node:module';
import { fileURLToPath } from 'node:url';
import { installHint } from './install-hint.ts';

// Before the modules are loaded: a later start takes half the time. Without write permission there is no cache.
module.enableCompileCache?.(fileURLToPath(new URL('../../node_modules/.cache/twinkeep/compiled', import.meta.url)));

// Node.js resolves each import statement with calls of the file system, for links and the kind of module. A start has
// 6,000 statements with a relative path, and these name a file.
module.registerHooks?.({
  resolve: (specifier, context, next) =>
    specifier.startsWith('.') && context.parentURL !== undefined && context.conditions.includes('import')
      ? { url: new URL(specifier, context.parentURL).href, shortCircuit: true }
      : next(specifier, context),
});

async function load() {
  try {
    return await Promise.all([import('./io.ts'), import('./run.ts')]);
  } catch (error) {
    const hint = installHint(error);
    if (hint === null) throw error;
    process.stderr.write(`error: ${hint}\n`);
    process.exit(1);
  }
}
const [{ processIo }, { run }] = await load();

// The reader of a pipe can close it (EPIPE), as in `twinkeep watch | head`.
process.stdout.on('error', () => process.exit(0));
process.exitCode = await run(processIo(), process.argv.slice(2));
