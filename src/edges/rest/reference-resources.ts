import type { JsonObject } from '../../domain/values.ts';
import type { BuiltFiles } from '../shared/built-files.ts';
import { referencePage } from '../shared/reference-pages.ts';
import type { PublicResource } from './public-resource.ts';

/** The OpenAPI and AsyncAPI documents, and the pages of the API reference with their files. */
export function referenceResources(parts: {
  openApi: JsonObject;
  /** Returns the same object until the document changes. */
  events(): JsonObject;
  files: BuiltFiles;
}): PublicResource[] {
  const { events, files } = parts;
  const openApi = JSON.stringify(parts.openApi);
  let asyncApi: { document: JsonObject; json: string } | null = null;
  const eventsJson = (): string => {
    const document = events();
    if (asyncApi?.document !== document) asyncApi = { document, json: JSON.stringify(document) };
    return asyncApi.json;
  };
  return [
    { path: '/openapi.json', respond: () => ({ type: 'application/json', body: openApi }) },
    { path: '/asyncapi.json', respond: () => ({ type: 'application/json', body: eventsJson() }) },
    { path: '/docs', respond: () => referencePage(files, 'rest') },
    { path: '/docs/events', respond: () => referencePage(files, 'events') },
    {
      path: '/docs/assets/{file}',
      respond: ([file = ''], { headers }) => files.asset(file, `${headers['accept-encoding'] ?? ''}`),
    },
  ];
}
