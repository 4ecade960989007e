import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
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

/** Runs Node.js with the cache, or one below it, and ends. */
function run(args: string[], below = '') {
  const env = { ...nodeEnv, NODE_COMPILE_CACHE: join(folder, 'compiled', below), DATA_DIR: join(folder, 'data') };
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  return spawnSync(process.execPath, args, { cwd, env, encoding: 'utf8' });
}

/** Imports modules in a process with the cache, and returns the names in it. */
function namesAfterImports(modules: string[], below = ''): string[] {
  const imports = modules.map((path) => `await import('./${path}');`).join('');
  expect(run(['--input-type=module', '--eval', imports], below)).toMatchObject({ status: 0, stderr: '' });
  return cached().map((file) => file.replace(/ .*/, ''));
}

let first: string[] = [];
beforeAll(async () => {
  copyPglite(inject('pgliteTemplate'), join(folder, 'data'));
  await fillCompileCache(join(folder, 'data'), join(folder, 'compiled'));
  first = cached();
});

it('an installation caches the compiled modules of a start, and the next start compiles none of them', async () => {
  // Each module of the service, and more of its libraries.
  expect(first.length).toBeGreaterThan(700);
  await fillCompileCache(join(folder, 'data'), join(folder, 'compiled'));
  expect(cached()).toEqual(expect.arrayContaining(first));
});

// Code that was compiled with other flags of V8 would be replaced.
it('a command that loads many modules of the service compiles none of them', () => {
  expect(run(['src/cli/main.ts', 'token', '--sub', 'me'])).toMatchObject({ status: 0, stderr: '' });
  expect(cached()).toEqual(expect.arrayContaining(first));
});

it.each([
  ['a service loads after its start', ['mcp', 'graphql', 'grpc'].map((edge) => `src/edges/${edge}/edge.ts`), ''],
  ['the process of its sidecar loads', ['sidecar/server.ts'], 'sidecar'],
])('an installation caches what %s', (_, modules, below) => {
  // The text of `--eval` is cached too.
  const before = namesAfterImports([], below);
  expect(namesAfterImports(modules, below)).toEqual(before);
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
