import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { pageBuild } from '../scripts/page-build.ts';

const navigation = [
  { page: '', path: '/console', name: 'Console' },
  { page: 'rest', path: '/docs', name: 'REST API' },
  { page: 'events', path: '/docs/events', name: 'Events' },
  { page: 'graphql', path: '/graphql', name: 'GraphQL' },
  { page: '', path: '/openapi.json', name: 'openapi.json' },
  { page: '', path: '/asyncapi.json', name: 'asyncapi.json' },
] as const;

/** The mark of the console, for decoration. */
const MARK = readFileSync(new URL('../console/src/icon.svg', import.meta.url), 'utf8')
  .trim()
  .replace('<svg xmlns="http://www.w3.org/2000/svg" ', '<svg class="mark" aria-hidden="true" ')
  .replace('<title>Twinkeep</title>', '');

/** Replaces `<!-- navigation -->` by the bar that the pages share. */
const navigationBar = (): Plugin => ({
  name: 'navigation-bar',
  transformIndexHtml: (html, { path }) => {
    const links = navigation.map(
      ({ page, path: href, name }) =>
        `<a href="${href}"${path === `/${page}.html` ? ' aria-current="page"' : ''}>${name}</a>`,
    );
    const bar = `<a class="skip" href="#content">Skip to content</a>
<nav class="bar" aria-label="API reference"><strong>${MARK}Twinkeep</strong>
${links.join('\n')}
</nav>`;
    return html.replace('<!-- navigation -->', bar);
  },
});

const source = (file: string): string => fileURLToPath(new URL(`src/${file}`, import.meta.url));

/**
 * Builds AsyncAPI's component without AsyncAPI's parser. The service's document is valid, so its model is enough; the
 * parser compiles schemas with `new Function`, which the Content-Security-Policy forbids, and adds 2 MB.
 */
const asyncApiWithoutParser = (): Plugin => ({
  name: 'asyncapi-without-parser',
  enforce: 'pre',
  resolveId(id, importer = '') {
    if (id === '@asyncapi/parser') return source('asyncapi-model.js');
    if (id === '@asyncapi/parser/cjs/document') return this.resolve('@asyncapi/parser/esm/document.js', importer);
    const isParser = id === './parser' && importer.includes('/@asyncapi/react-component/');
    const isOfParser = /^@(asyncapi\/specs|stoplight\/)/.test(id) && importer.includes('/@asyncapi/parser/');
    return isParser || isOfParser ? source('asyncapi-parser-stub.js') : null;
  },
});

/** Drops GraphiQL's fonts: data URLs, which the Content-Security-Policy forbids, and 0.4 MB. The system's fonts are used. */
const systemFonts = (): Plugin => ({
  name: 'system-fonts',
  enforce: 'pre',
  transform: (code, id) =>
    id.endsWith('/graphiql/dist/style.css') ? code.replace(/@font-face\s*\{[^}]*\}/g, '') : null,
});

/** Licences of the libraries that Swagger UI's own bundle contains. */
const licensesOfSwaggerUi = (): Plugin => ({
  name: 'licenses-of-swagger-ui',
  generateBundle() {
    const file = createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui-es-bundle.js.LICENSE.txt');
    this.emitFile({ type: 'asset', fileName: 'licenses-of-swagger-ui.txt', source: readFileSync(file) });
  },
});

const page = (name: string): string => fileURLToPath(new URL(`${name}.html`, import.meta.url));

export default defineConfig({
  // The service serves the files below this path.
  base: '/docs/',
  plugins: [navigationBar(), asyncApiWithoutParser(), systemFonts(), licensesOfSwaggerUi()],
  build: {
    ...pageBuild,
    rolldownOptions: {
      input: [page('rest'), page('events'), page('graphql')],
      onwarn: (warning, log) => {
        // 'use client' of React libraries has no meaning here.
        if (warning.code !== 'MODULE_LEVEL_DIRECTIVE') log(warning);
      },
    },
  },
});
