import { registerHooks } from 'node:module';

/*
 * Resolves relative imports without calls of the file system, as `src/cli/main.ts` does: a tenth of the processor time of
 * a start.
 */
registerHooks({
  resolve: (specifier, context, next) =>
    specifier.startsWith('.') && context.parentURL !== undefined && context.conditions.includes('import')
      ? { url: new URL(specifier, context.parentURL).href, shortCircuit: true }
      : next(specifier, context),
});
