import type { JsonObject } from '../../domain/values.ts';

/** Where a client of the AI-tool interface learns whose tokens are taken (RFC 9728). */
export const METADATA_PATH = '/.well-known/oauth-protected-resource';

/** `issuer` is the external identity provider's, where there is one. */
export const protectedResource = (publicUrl: string, issuer: string | null): JsonObject => ({
  resource: `${publicUrl}/mcp`,
  resource_name: 'Twinkeep',
  ...(issuer !== null && { authorization_servers: [issuer] }),
  bearer_methods_supported: ['header'],
  resource_documentation: `${publicUrl}/docs`,
});
