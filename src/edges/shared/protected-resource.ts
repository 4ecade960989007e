import type { JsonObject } from '../../domain/values.ts';

/** Path of the OAuth protected resource metadata for MCP clients (RFC 9728). */
export const METADATA_PATH = '/.well-known/oauth-protected-resource';

/** `issuer` is that of the external identity provider; null if none is configured. */
export const protectedResource = (publicUrl: string, issuer: string | null): JsonObject => ({
  resource: `${publicUrl}/mcp`,
  resource_name: 'Twinkeep',
  ...(issuer !== null && { authorization_servers: [issuer] }),
  bearer_methods_supported: ['header'],
  resource_documentation: `${publicUrl}/docs`,
});
