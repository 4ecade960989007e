import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { JsonObject } from '../../../domain/values.ts';
import type { Content } from '../../shared/exchange.ts';
import type { PublicResource } from '../public-resource.ts';
import { eventsPage } from './events.ts';
import { renderPage } from './frame.ts';
import { html } from './markup.ts';
import { STYLE } from './style.ts';

/** The OpenAPI and AsyncAPI documents and their pages. `events` returns the same object until the document changes. */
export function docsResources({ openApi, events }: { openApi: JsonObject; events(): JsonObject }): PublicResource[] {
  const rest = JSON.stringify(openApi);
  let rendered: { document: JsonObject; json: string; page: string } | null = null;
  const current = () => {
    const document = events();
    if (rendered?.document !== document) {
      rendered = { document, json: JSON.stringify(document), page: eventsPage(document) };
    }
    return rendered;
  };
  return [
    { path: '/openapi.json', respond: () => ({ type: 'application/json', body: rest }) },
    { path: '/asyncapi.json', respond: () => ({ type: 'application/json', body: current().json }) },
    { path: '/docs', respond: () => reference },
    {
      path: '/docs/events',
      respond: () => ({ type: 'text/html; charset=utf-8', policy: EVENTS_POLICY, body: current().page }),
    },
    { path: '/docs/{file}', respond: ([file = '']) => asset(file) },
  ];
}

const COMMON_POLICY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const EVENTS_POLICY = `${COMMON_POLICY}; img-src 'self'`;
// No inline script is needed. Swagger UI sets styles through the DOM, which the policy allows, and loads icons from data URLs.
const REFERENCE_POLICY = `${COMMON_POLICY}; script-src 'self'; img-src 'self' data:; connect-src 'self'`;

const reference: Content = {
  type: 'text/html; charset=utf-8',
  policy: REFERENCE_POLICY,
  body: renderPage({
    path: '/docs',
    title: 'Twinkeep API',
    styles: ['swagger-ui.css', 'style.css'],
    scripts: ['swagger-ui-bundle.js', 'start.js'],
    body: html`<main id="content"><div id="reference"></div></main>`,
  }),
};

const START = `const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  tryItOutEnabled: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  showExtensions: true,
});
`;

const files: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
};

const CACHE = 'public, max-age=3600';

async function asset(file: string): Promise<Content | null> {
  if (file === 'start.js') return { type: 'text/javascript; charset=utf-8', body: START, cache: CACHE };
  if (file === 'style.css') return { type: 'text/css; charset=utf-8', body: STYLE, cache: CACHE };
  const type = Object.hasOwn(files, file) ? files[file] : undefined;
  if (type === undefined) return null;
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  return { type, body: await readFile(join(folder, file)), cache: CACHE };
}
