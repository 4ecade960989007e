import { hash } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import { TokenDenylist } from './token-denylist.ts';
import { LEEWAY_S } from './tokens.ts';

/**
 * Tokens that were presented at `/mcp`: from then on they are no person's, on any edge (contract §5). Known by a digest of
 * whose they are and of their `jti` (or of what was signed): a signature can be written in more than one way.
 */
export interface AgentTokens extends SizeReporter {
  has(userId: Uuid, tokenId: string): boolean;
  /** Resolves when it is durable; a token that was added before costs nothing. */
  add(userId: Uuid, token: { id: string; expiresAt: EpochMs }): Promise<void> | undefined;
}

export async function loadAgentTokens(
  store: Pick<IdentityStore, 'markAgentToken' | 'agentTokens'>,
  clock: Clock,
  news: InvalidationBus = makeLocalInvalidationBus(),
): Promise<AgentTokens> {
  const known = new TokenDenylist(clock);
  const durable = new TokenDenylist(clock);
  const note = (digest: string, until: EpochMs) => {
    known.add(digest, until);
    durable.add(digest, until);
  };
  news.subscribe((item) => {
    if (item.about === 'presented') note(item.digest, item.until);
  });
  // Expired ones too: the clock may be ahead.
  for (const { digest, expiresAt } of await store.agentTokens(0)) note(digest, expiresAt);

  async function keep(digest: string, until: EpochMs): Promise<void> {
    await store.markAgentToken(digest, until);
    news.publish({ about: 'presented', digest, until });
  }

  return {
    sizes: () => ({ presented_tokens: known.size, presented_tokens_stored: durable.size }),
    has: (userId, tokenId) => known.size > 0 && known.has(digestOf(userId, tokenId)),
    add(userId, { id, expiresAt }) {
      const digest = digestOf(userId, id);
      if (durable.has(digest)) return undefined;
      const until = expiresAt + LEEWAY_S * 1000;
      // No person's at once, also while the store is asked.
      known.add(digest, until);
      return keep(digest, until);
    },
  };
}

const digestOf = (userId: Uuid, tokenId: string): string => hash('sha256', `${userId}|${tokenId}`, 'base64url');
