import type { JWK } from 'jose';
import type { JsonObject } from '../../domain/values.ts';
import type { Metrics } from '../shared/metrics.ts';
import { METADATA_PATH } from '../shared/protected-resource.ts';
import { docsPages } from './docs/pages.ts';
import { openApi } from './openapi.ts';
import type { Page } from './page.ts';
import { type SignInPages, signInPages } from './sign-in/pages.ts';
import { chapters } from './table.ts';

let document: JsonObject | undefined;

/** The OpenAPI document of the routes; built once per process. */
const restDocument = (): JsonObject => (document ??= openApi(chapters));

export function pages(parts: {
  metrics: Metrics;
  publicKeys: readonly JWK[];
  events(): JsonObject;
  protectedResource(): JsonObject;
  signIn: SignInPages;
}): Page[] {
  const keys = JSON.stringify({ keys: parts.publicKeys });
  return [
    {
      path: '/metrics',
      everywhere: true,
      outsideRate: true,
      content: async () => ({ type: parts.metrics.type, body: await parts.metrics.text() }),
    },
    {
      path: '/.well-known/jwks.json',
      outsideRate: true,
      content: () => ({ type: 'application/jwk-set+json', body: keys, cache: 'public, max-age=300' }),
    },
    // RFC 9728 puts the path of the resource behind; clients ask there first.
    ...[METADATA_PATH, `${METADATA_PATH}/mcp` as const].map(
      (path): Page => ({
        path: path as `/${string}`,
        outsideRate: true,
        content: () => ({ type: 'application/json', body: JSON.stringify(parts.protectedResource()) }),
      }),
    ),
    ...signInPages(parts.signIn),
    ...docsPages({ openApi: restDocument(), events: parts.events }),
  ];
}
