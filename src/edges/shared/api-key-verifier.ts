import { isApiKey } from '../../domain/api-key.ts';
import { scopesOfKey } from '../../domain/scopes.ts';
import type { ApiKeyCache } from '../../services/api-key-cache.ts';
import type { Verifier } from './identity.ts';

/** API keys: they act for the user who made them, in that tenant, and are never a person. */
export const apiKeyVerifier = (keys: Pick<ApiKeyCache, 'verify' | 'recordUse'>): Verifier => ({
  recognises: isApiKey,
  async verify(credential) {
    const key = await keys.verify(credential);
    if (key === null) return null;
    const { prefix, userId, tenantId, roleCap, scopes, expiresAt } = key;
    return {
      subject: { userId },
      key: prefix,
      ...{ tenantId, roleCap, platformAdmin: false, person: false, token: null },
      scopes: scopesOfKey(scopes),
      ...(expiresAt !== null && { endsAt: expiresAt }),
      used: (at) => keys.recordUse(prefix, at),
      until: expiresAt ?? Number.POSITIVE_INFINITY,
    };
  },
});
