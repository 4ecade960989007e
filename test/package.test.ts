import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { slow } from './support/slow.ts';

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const lock = JSON.parse(read('package-lock.json')) as {
  packages: Record<string, { dev?: boolean; link?: boolean; hasInstallScript?: boolean }>;
};
/** What `npm install twinkeep` brings, by its path in `node_modules`. */
const installed = Object.entries(lock.packages).filter(
  ([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link,
);
const names = installed.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));

it('installs no telemetry, and no library of the pages, which are built', () => {
  expect(names).toContain('express');
  for (const name of ['@scarf/scarf', 'swagger-ui-dist', 'graphiql', '@asyncapi/react-component', 'react'])
    expect(names).not.toContain(name);
});

it('runs no code of its dependencies during installation, except the version check of protobufjs', () => {
  const scripted = installed.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path);
  expect(scripted).toEqual(['node_modules/protobufjs']);
});

it('has an image whose base is pinned by digest, with the Node.js of the tests', () => {
  const bases = read('Dockerfile').match(/^FROM \S+/gm) ?? [];
  const { devDependencies } = JSON.parse(read('package.json')) as { devDependencies: { node: string } };
  expect(bases).toHaveLength(2);
  expect(new Set(bases).size).toBe(1);
  expect(bases[0]).toMatch(new RegExp(`^FROM node:${devDependencies.node}-slim@sha256:[0-9a-f]{64}$`));
});

const run = promisify(execFile);

/** The files of the package in a folder, as npm would pack them without building first. */
async function packedFiles(folder: string): Promise<string[]> {
  const cwd = fileURLToPath(new URL(`../${folder}`, import.meta.url));
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--silent'];
  const { stdout } = await run('npm', args, { cwd, maxBuffer: 2 ** 26 });
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, { files: { path: string }[] }>);
  return packed?.files.map(({ path }) => path) ?? [];
}

/** Links of documents in a package to files that it does not carry. */
function missingLinks(folder: string, files: readonly string[]): string[] {
  const carried = new Set(files.flatMap((file) => [file, dirname(file), dirname(dirname(file))]));
  return files
    .filter((file) => file.endsWith('.md') && !file.startsWith('dist/'))
    .flatMap((file) => {
      const text = read(join(folder, file))
        .replace(/^```[\s\S]*?^```$/gm, '')
        .replace(/`[^`\n]*`/g, 'code');
      return [...text.matchAll(/\]\((?!https?:|mailto:|#)([^)\s#]+)/g)]
        .map(([, link = '']) => ({ link, target: join(dirname(file), link).replace(/\/$/, '') }))
        .filter(({ target }) => !carried.has(target))
        .map(({ link }) => `${file}: ${link}`);
    });
}

it('carries every file that its documents link to', slow, async () => {
  const files = await packedFiles('.');
  expect(files).toEqual(expect.arrayContaining(['README.md', 'docs/devices.md', 'docs/console/twin.png']));
  expect(missingLinks('.', files)).toEqual([]);
  // Neither sources nor tests.
  expect(files.filter((file) => /^(?:src|test|console|sidecar|scripts|node_modules)\//.test(file))).toEqual([]);
});

it('has a package of the device library whose document links to no other file', async () => {
  const files = await packedFiles('packages/device');
  expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md', 'package.json']));
  expect(files.filter((file) => !/^(?:LICENSE|README\.md|package\.json|dist\/.+)$/.test(file))).toEqual([]);
  expect(missingLinks('packages/device', files)).toEqual([]);
});
