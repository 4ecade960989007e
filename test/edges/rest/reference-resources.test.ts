import { expect, it, vi } from 'vitest';
import type { ResourceRequest } from '../../../src/edges/rest/public-resource.ts';
import { referenceResources } from '../../../src/edges/rest/reference-resources.ts';
import { makeBuiltFiles } from '../../../src/edges/shared/built-files.ts';

it.each(['openApi', 'events'] as const)(
  'the document %s is built by its first request, and written again when it changes',
  async (name) => {
    let document = { title: 'first' };
    const built = { openApi: vi.fn(() => document), events: vi.fn(() => document) };
    const resources = referenceResources({ ...built, files: makeBuiltFiles(new URL('file:///nowhere/')) });
    expect(built[name]).not.toHaveBeenCalled();
    const resource = resources.find(
      ({ path }) => path === { openApi: '/openapi.json', events: '/asyncapi.json' }[name],
    );
    const text = async () => (await resource?.respond([], {} as ResourceRequest)) as { body: string };
    expect((await text()).body).toBe('{"title":"first"}');
    document = { title: 'second' };
    expect((await text()).body).toBe('{"title":"second"}');
  },
);
