import type { Json, JsonObject } from '../../domain/values.ts';
import type { Operation } from '../../operations/operation.ts';

/** The authentication methods of the API. */
export const securitySchemes: JsonObject = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'A token of the service or of its identity provider, or an API key',
  },
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'An API key: `twk_…`' },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'twinkeep_session',
    description: 'A cookie session (`/auth/session`, `/auth/login`); over HTTPS the name has the prefix `__Host-`',
  },
  csrf: {
    type: 'apiKey',
    in: 'header',
    name: 'X-CSRF-Token',
    description: 'Token of `/auth/csrf`, required for every change in a cookie session',
  },
};

/** Security requirements of an operation. In OpenAPI an empty requirement makes authentication optional. */
export function securityOf({ role, optionalAuth, personOnly, platformOnly, changes }: Operation): JsonObject[] {
  const session: Record<string, Json> = changes ? { session: [], csrf: [] } : { session: [] };
  const key = role === null || personOnly || platformOnly ? [] : [{ apiKey: [] }];
  if (role !== null) return [{ bearer: [] }, ...key, session];
  return optionalAuth ? [{}, { bearer: [] }, session] : [];
}
