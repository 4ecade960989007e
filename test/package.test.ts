import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

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
