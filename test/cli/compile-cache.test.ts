import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, inject, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { fillCompileCache } from '../../scripts/fill-compile-cache.ts';
import { nodeEnv } from '../support/node-flags.ts';
import { copyPglite } from '../support/pglite.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-compiled-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Each cached module with the time at which it was written. */
const cached = (): string[] =>
  readdirSync(join(folder, 'compiled'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => `${name} ${statSync(join(parentPath, name)).mtimeMs}`)
    .sort();

it('an installation caches the compiled modules of a start, and the next commands compile none of them', async () => {
  copyPglite(inject('pgliteTemplate'), join(folder, 'data'));
  await fillCompileCache(join(folder, 'data'), join(folder, 'compiled'));
  const first = cached();
  // Each module of the service, and more of its libraries.
  expect(first.length).toBeGreaterThan(700);
  await fillCompileCache(join(folder, 'data'), join(folder, 'compiled'));
  expect(cached()).toEqual(expect.arrayContaining(first));
  // Loads many modules of the service. Code that was compiled with other flags of V8 would be replaced.
  const env = { ...nodeEnv, NODE_COMPILE_CACHE: join(folder, 'compiled'), DATA_DIR: join(folder, 'data') };
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const token = spawnSync(process.execPath, ['src/cli/main.ts', 'token', '--sub', 'me'], {
    cwd,
    env,
    encoding: 'utf8',
  });
  expect(token).toMatchObject({ status: 0, stderr: '' });
  expect(cached()).toEqual(expect.arrayContaining(first));
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
