import { hash } from 'node:crypto';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { Sized } from '../domain/sizes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { makeNews, type News } from './news.ts';
import { LEEWAY_S } from './tokens.ts';

/**
 * Tokens that were presented at `/mcp`: from then on they are no person's, on any edge (contract §5). Known by a digest of
 * whose they are and of their `jti` (or of what was signed): a signature can be written in more than one way.
 */
export interface PresentedTokens extends Sized {
  has(userId: Uuid, tokenId: string): boolean;
  /** Resolves when it is durable; a token that was added before costs nothing. */
  add(userId: Uuid, token: { id: string; expiresAt: EpochMs }): Promise<void> | undefined;
}

const PRUNE_MS = 60_000;

export async function loadPresented(
  store: Pick<IdentityStore, 'markPresented' | 'presentedTokens'>,
  clock: Clock,
  news: News = makeNews(),
): Promise<PresentedTokens> {
  /** When each may be forgotten. */
  const known = new Map<string, EpochMs>();
  const durable = new Set<string>();
  let prunedAt = referenceOf(clock);
  const note = (digest: string, until: EpochMs) => {
    known.set(digest, until);
    durable.add(digest);
  };
  news.hear((item) => {
    if (item.about === 'presented') note(item.digest, item.until);
  });
  for (const { digest, expiresAt } of await store.presentedTokens(referenceOf(clock))) note(digest, expiresAt);

  function prune(now: EpochMs): void {
    if (now - prunedAt < PRUNE_MS) return;
    prunedAt = now;
    for (const [digest, until] of known) {
      if (until >= now) continue;
      known.delete(digest);
      durable.delete(digest);
    }
  }

  async function keep(digest: string, until: EpochMs): Promise<void> {
    await store.markPresented(digest, until);
    news.tell({ about: 'presented', digest, until });
  }

  return {
    sizes: () => ({ presented_tokens: known.size, presented_tokens_stored: durable.size }),
    has: (userId, tokenId) => known.size > 0 && known.has(digestOf(userId, tokenId)),
    add(userId, { id, expiresAt }) {
      const digest = digestOf(userId, id);
      if (durable.has(digest)) return undefined;
      prune(referenceOf(clock));
      const until = expiresAt + LEEWAY_S * 1000;
      // No person's at once, also while the store is asked.
      known.set(digest, until);
      return keep(digest, until);
    },
  };
}

const digestOf = (userId: Uuid, tokenId: string): string => hash('sha256', `${userId}|${tokenId}`, 'base64url');
