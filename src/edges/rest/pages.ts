import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { JWK } from 'jose';
import type { Metrics } from '../shared/metrics.ts';
import type { Content } from './exchange.ts';
import { openApi } from './openapi.ts';
import type { Page } from './page.ts';
import { chapters } from './table.ts';

export function pages(parts: { metrics: Metrics; publicKeys: readonly JWK[] }): Page[] {
  const description = JSON.stringify(openApi(chapters));
  const keys = JSON.stringify({ keys: parts.publicKeys });
  return [
    {
      path: '/metrics',
      everywhere: true,
      outsideRate: true,
      content: async () => ({ type: parts.metrics.type, body: await parts.metrics.text() }),
    },
    { path: '/openapi.json', content: () => ({ type: 'application/json', body: description }) },
    {
      path: '/.well-known/jwks.json',
      outsideRate: true,
      content: () => ({ type: 'application/jwk-set+json', body: keys, cache: 'public, max-age=300' }),
    },
    { path: '/docs', content: () => docs },
    { path: '/docs/{file}', content: ([file = '']) => asset(file) },
  ];
}

// No inline script; swagger-ui sets styles on elements, which is not inline, and draws its arrows from data URLs.
const DOCS_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const docs: Content = {
  type: 'text/html; charset=utf-8',
  policy: DOCS_POLICY,
  body: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Twinkeep API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`,
};

const START = `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  tryItOutEnabled: true,
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
  const type = Object.hasOwn(files, file) ? files[file] : undefined;
  if (type === undefined) return null;
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  return { type, body: await readFile(join(folder, file)), cache: CACHE };
}
