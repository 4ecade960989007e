import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as {
  packages: Record<string, { dev?: boolean; hasInstallScript?: boolean }>;
};
/** What `npm install twinkeep` brings, by its path in `node_modules`. */
const installed = Object.entries(lock.packages).filter(([path, { dev }]) => path !== '' && !dev);
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
