import { hash } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { TokenDenylist } from './token-denylist.ts';
import { LEEWAY_S } from './tokens.ts';

/**
 * Tokens that were presented at `/mcp`. From then on, no edge accepts them as a person's (contract §5). Identified by a
 * digest of the user id and the `jti` (or of the signed part): the same signature can be encoded in several ways.
 */
export interface AgentTokens extends SizeReporter {
  has(userId: Uuid, tokenId: string): boolean;
  /** Resolves when the token is stored; undefined if it is stored already. */
  add(userId: Uuid, token: { id: string; expiresAt: EpochMs }): Promise<void> | undefined;
}

export async function loadAgentTokens(
  store: Pick<IdentityStore, 'markAgentToken' | 'agentTokens'>,
  clock: Clock,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
): Promise<AgentTokens> {
  const marked = new TokenDenylist(clock);
  const stored = new TokenDenylist(clock);
  const addBoth = (digest: string, until: EpochMs) => {
    marked.add(digest, until);
    stored.add(digest, until);
  };
  invalidations.subscribe((item) => {
    if (item.about === 'presented') addBoth(item.digest, item.until);
  });
  // Includes expired tokens: the clock may be ahead.
  for (const { digest, expiresAt } of await store.agentTokens(0)) addBoth(digest, expiresAt);

  async function persist(digest: string, until: EpochMs): Promise<void> {
    await store.markAgentToken(digest, until);
    invalidations.publish({ about: 'presented', digest, until });
  }

  return {
    sizes: () => ({ presented_tokens: marked.size, presented_tokens_stored: stored.size }),
    has: (userId, tokenId) => marked.size > 0 && marked.has(digestOf(userId, tokenId)),
    add(userId, { id, expiresAt }) {
      const digest = digestOf(userId, id);
      if (stored.has(digest)) return undefined;
      const until = expiresAt + LEEWAY_S * 1000;
      // Effective at once, before the store has confirmed.
      marked.add(digest, until);
      return persist(digest, until);
    },
  };
}

const digestOf = (userId: Uuid, tokenId: string): string => hash('sha256', `${userId}|${tokenId}`, 'base64url');
