import { isApiKey } from '../../domain/api-key.ts';
import { scopesOfKey } from '../../domain/scopes.ts';
import { keyEntry } from '../../services/agent-tokens.ts';
import type { ApiKeyCache } from '../../services/api-key-cache.ts';
import type { Verifier } from './authenticator.ts';

/**
 * Verifies API keys. A key acts for the user that created it, in that tenant, and never counts as a person. During the grace
 * of a rotated key, a client has both keys, so that what marks one as an agent's marks the other.
 */
export const apiKeyVerifier = (keys: Pick<ApiKeyCache, 'verify' | 'recordUse' | 'findValid'>): Verifier => ({
  recognises: isApiKey,
  async verify(credential, refused) {
    const key = await keys.verify(credential, ({ userId, tenantId, prefix }) =>
      refused?.({ userId, tenantId, key: prefix }),
    );
    if (key === null) return null;
    const { prefix, userId, tenantId, roleCap, scopes, restriction, expiresAt } = key;
    const other = key.replacedBy ?? key.replaces;
    const sameClient = other === null ? null : await keys.findValid(other);
    return {
      subject: { userId },
      key: prefix,
      ...{ tenantId, roleCap, platformAdmin: false, person: false, token: null },
      scopes: scopesOfKey(scopes),
      ...(restriction !== null && { restriction }),
      ...(expiresAt !== null && { endsAt: expiresAt }),
      ...(sameClient !== null && {
        sameClient: { userId: sameClient.userId, ...keyEntry(sameClient.prefix, sameClient.expiresAt) },
      }),
      used: (at) => keys.recordUse(prefix, at),
      until: expiresAt ?? Number.POSITIVE_INFINITY,
    };
  },
});
