import type { JsonObject } from '../../domain/values.ts';
import type { BuiltFiles } from '../shared/built-files.ts';
import type { Content } from '../shared/http-exchange.ts';
import { referencePage } from '../shared/reference-pages.ts';
import type { PublicResource } from './public-resource.ts';

/** The OpenAPI and AsyncAPI documents, built when they are first requested, and the pages of the API reference with their files. */
export function referenceResources(parts: {
  /** Both return the same object until the document changes. */
  openApi(): JsonObject | Promise<JsonObject>;
  events(): JsonObject;
  files: BuiltFiles;
}): PublicResource[] {
  const { files } = parts;
  const [openApi, asyncApi] = [jsonOf(parts.openApi), jsonOf(parts.events)];
  return [
    { path: '/openapi.json', respond: openApi },
    { path: '/asyncapi.json', respond: asyncApi },
    { path: '/docs', respond: () => referencePage(files, 'rest') },
    { path: '/docs/events', respond: () => referencePage(files, 'events') },
    {
      path: '/docs/assets/{file}',
      respond: ([file = ''], { headers }) => files.asset(file, `${headers['accept-encoding'] ?? ''}`),
    },
  ];
}

/** The current document as a response, whose text is kept until the document changes. */
function jsonOf(current: () => JsonObject | Promise<JsonObject>): () => Promise<Content> {
  let last: { document: JsonObject; json: string } | null = null;
  return async () => {
    const document = await current();
    if (last?.document !== document) last = { document, json: JSON.stringify(document) };
    return { type: 'application/json', body: last.json };
  };
}
