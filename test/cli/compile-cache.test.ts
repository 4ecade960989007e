import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, inject, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { fillCompileCache } from '../../scripts/fill-compile-cache.ts';
import { copyPglite } from '../support/pglite.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-compiled-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('an installation caches the compiled modules of a start', async () => {
  copyPglite(inject('pgliteTemplate'), join(folder, 'data'));
  await fillCompileCache(join(folder, 'data'), join(folder, 'compiled'));
  // Each module of the service, and more of its libraries.
  expect(readdirSync(join(folder, 'compiled'), { recursive: true }).length).toBeGreaterThan(700);
});

it.each(['start', 'demo'] as const)(
  'npm run %s uses the cache, with the same flags, from its first module on',
  (name) => {
    const cached = /^NODE_COMPILE_CACHE=node_modules\/\.cache\/twinkeep\/compiled exec node (--.*) src\/cli\/main\.ts/;
    const flags = (script: string) => cached.exec(script)?.[1];
    expect(flags(packageJson.scripts[name])).toBeDefined();
    expect(flags(packageJson.scripts[name])).toBe(flags(packageJson.scripts.start));
  },
);

it('a start that fails is reported with its error', async () => {
  await expect(fillCompileCache('/dev/null/data', join(folder, 'none'))).rejects.toThrow(/did not start: error: /);
});
