import type { BuiltFiles } from './built-files.ts';
import type { Content } from './http-exchange.ts';

/** A page of the API reference: Swagger UI, AsyncAPI's component, GraphiQL. */
export type ReferencePage = 'rest' | 'events' | 'graphql';

/** No inline script or style is needed: the libraries set styles through the DOM, and load icons from data URLs. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML = 'text/html; charset=utf-8';

const NOT_BUILT: Content = {
  type: HTML,
  status: 503,
  body: `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Twinkeep API</title>
<main><h1>The API reference is not built</h1>
<p>In a checkout, run <code>npm run build:pages</code>. <code>npm start</code> and <code>npm run demo</code> build it automatically.</p>
</main></html>
`,
};

export async function referencePage(files: BuiltFiles, page: ReferencePage): Promise<Content> {
  const body = await files.page(page);
  return body === null ? NOT_BUILT : { type: HTML, body, policy: POLICY };
}
