import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bundledPackages, installedSbom, makeSbom, type Sbom } from '../../scripts/make-sbom.ts';
import { slow } from '../support/slow.ts';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const { devDependencies } = JSON.parse(read('package.json')) as { devDependencies: Record<string, string> };
const lock = JSON.parse(read('package-lock.json')) as {
  packages: Record<string, { version: string; dev?: boolean; link?: boolean }>;
};

describe('the SBOM of the package', () => {
  it('lists every dependency of an installation and what the pages contain, without the network', slow, async () => {
    const bundled = [`react@${devDependencies.react}`];
    const { components, dependencies, metadata } = await makeSbom(bundled);
    const installed = Object.entries(lock.packages)
      .filter(([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link)
      .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`);
    const refs = components.map((component) => component['bom-ref']);
    expect(new Set(refs)).toEqual(new Set([...installed, ...bundled]));
    expect(metadata.component.name).toBe('twinkeep');
    const root = dependencies.find(({ ref }) => ref === metadata.component['bom-ref']);
    expect(root?.dependsOn).toEqual(expect.arrayContaining([expect.stringMatching(/^express@/), ...bundled]));
    expect(dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !refs.includes(ref))).toEqual([]);
  });

  it('marks what is part of the pages, and refuses a package that is not locked', () => {
    const development = [{ name: 'cdx:npm:package:development', value: 'true' }];
    const all: Sbom = {
      metadata: { component: { 'bom-ref': 'a@1', name: 'folder' } },
      components: ['b@1', 'c@1'].map((ref) => ({
        ...{ 'bom-ref': ref, name: ref, version: '1', scope: 'optional', properties: development },
      })),
      dependencies: [{ ref: 'a@1', dependsOn: ['b@1', 'c@1'] }],
    };
    const { components, dependencies } = installedSbom(all, { name: 'a', bundled: ['b@1'] });
    expect(components).toMatchObject([{ name: 'b@1', scope: 'required', properties: [{ name: 'twinkeep:bundled' }] }]);
    expect(dependencies).toEqual([{ ref: 'a@1', dependsOn: ['b@1'] }]);
    expect(() => installedSbom(all, { name: 'a', bundled: ['d@1'] })).toThrow('not in package-lock.json: d@1');
  });

  it('reads the packages of the pages from the list of their licenses', () => {
    const licenses = '# Licenses\n\n## @rjsf/core - 6.11.1 (Apache-2.0)\n\nText\n## react - 19.3.1 (MIT)\n';
    expect(bundledPackages(licenses)).toEqual(['@rjsf/core@6.11.1', 'react@19.3.1']);
  });
});
