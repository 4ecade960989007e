import type { Json, JsonObject } from '../../domain/values.ts';
import type { Operation } from '../../operations/operation.ts';

/** The ways in which a caller may say who they are. */
export const securitySchemes: JsonObject = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'A token, of the service or of its identity provider; or an API key',
  },
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'An API key: `tk_…`' },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'twinkeep_session',
    description: 'A cookie session (`/auth/session`, `/auth/login`); under HTTPS its name begins with `__Host-`',
  },
  csrf: {
    type: 'apiKey',
    in: 'header',
    name: 'X-CSRF-Token',
    description: 'Of `/auth/csrf`: with each change that a cookie session asks for',
  },
};

/** None, any, or one of them: in OpenAPI an empty requirement makes the others optional. */
export function securityOf({ role, optionalAuth, personOnly, platformOnly, changes }: Operation): JsonObject[] {
  const session: Record<string, Json> = changes ? { session: [], csrf: [] } : { session: [] };
  const key = role === null || personOnly || platformOnly ? [] : [{ apiKey: [] }];
  if (role !== null) return [{ bearer: [] }, ...key, session];
  return optionalAuth ? [{}, { bearer: [] }, session] : [];
}
