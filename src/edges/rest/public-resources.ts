import type { JWK } from 'jose';
import type { Refusal } from '../../domain/refusals.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { BuiltFiles } from '../shared/built-files.ts';
import type { Metrics } from '../shared/metrics.ts';
import type { PresentsMetricsToken } from '../shared/metrics-access.ts';
import { METADATA_PATH } from '../shared/protected-resource.ts';
import { SlicedBuild } from '../shared/sliced-build.ts';
import { entryResources } from './entry-resources.ts';
import { openApiSteps } from './openapi.ts';
import type { PublicResource } from './public-resource.ts';
import { referenceResources } from './reference-resources.ts';
import { routeGroups } from './routes.ts';
import { type SignInParts, signInResources } from './sign-in/sign-in-resources.ts';

let built: { tiers: string; document: SlicedBuild<JsonObject> } | undefined;

/** The OpenAPI document of the routes; built once per process. */
function restDocument(tiers: readonly string[]): Promise<JsonObject> {
  const key = tiers.join();
  if (built?.tiers !== key) built = { tiers: key, document: new SlicedBuild(openApiSteps(routeGroups, tiers)) };
  return built.document.build();
}

const METRICS_REFUSAL: Refusal = {
  code: 'UNAUTHENTICATED',
  detail: 'Present METRICS_TOKEN as a bearer token or in X-API-Key.',
};

export function publicResources(parts: {
  metrics: Metrics;
  /** Null, or missing: everyone may. */
  mayReadMetrics?: PresentsMetricsToken | null;
  publicKeys: readonly JWK[];
  events(): JsonObject;
  protectedResource(): JsonObject;
  /** The configured tiers, for the API reference. */
  tiers?: readonly string[];
  signIn: SignInParts;
  /** Build output of `reference/`. */
  reference: BuiltFiles;
}): PublicResource[] {
  const keys = JSON.stringify({ keys: parts.publicKeys });
  return [
    {
      path: '/metrics',
      atRootAndVersioned: true,
      rateLimitExempt: true,
      async respond(_values, { headers }) {
        if (parts.mayReadMetrics?.(headers) === false) return { refusal: METRICS_REFUSAL };
        return { type: parts.metrics.contentType, body: await parts.metrics.render() };
      },
    },
    {
      path: '/.well-known/jwks.json',
      rateLimitExempt: true,
      respond: () => ({ type: 'application/jwk-set+json', body: keys, cache: 'public, max-age=300' }),
    },
    // RFC 9728 appends the path of the resource; clients try that URL first.
    ...[METADATA_PATH, `${METADATA_PATH}/mcp` as const].map(
      (path): PublicResource => ({
        path: path as `/${string}`,
        rateLimitExempt: true,
        respond: () => ({ type: 'application/json', body: JSON.stringify(parts.protectedResource()) }),
      }),
    ),
    ...entryResources,
    ...signInResources(parts.signIn),
    ...referenceResources({
      openApi: () => restDocument(parts.tiers ?? []),
      events: parts.events,
      files: parts.reference,
    }),
  ];
}
