import { hash } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { IdentityStore } from '../store/contract.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import type { StoreLiveness } from './store-liveness.ts';
import { TokenDenylist } from './token-denylist.ts';
import { LEEWAY_S, someInChain, type TokenRef } from './tokens.ts';

/**
 * Tokens, clients of the identity provider and API keys that were presented at `/mcp`. From then on, no edge accepts such
 * a token, or another one that the same client got for the same user, as a person's (contract §5), and all treat such a
 * key as an agent's. Tokens are identified by a digest of the user id and the `jti` (or of the signed part): the same
 * signature can be encoded in several ways.
 */
export interface AgentTokens extends SizeReporter {
  /**
   * Whether the token or one that it was derived from was presented. From memory, or from the store while the memory may
   * be outdated.
   */
  has(userId: Uuid, token: Pick<TokenRef, 'id' | 'ancestors'>): boolean | Promise<boolean>;
  /** Resolves when the token is stored; undefined if it is stored already, or with an expiry at most a day earlier. */
  add(userId: Uuid, token: { id: string; expiresAt: EpochMs }): Promise<void> | undefined;
}

/** How much later than its stored expiry an entry has to expire to be stored again. */
const RENEW_MS = 86_400_000;

/** Later than every time of a clock: a key without an expiry is kept. */
const NEVER: EpochMs = 8.64e15;

/** An API key as an entry of `AgentTokens`. */
export const keyEntry = (prefix: string, expiresAt: EpochMs | null = null) => ({
  ...{ id: `key:${prefix}`, ancestors: [], expiresAt: expiresAt ?? NEVER },
});

/**
 * How long a client of the identity provider remains an agent of a user after the last day on which a token that it got
 * was presented. The service does not know how long a client can refresh its tokens.
 */
export const CLIENT_MARK_MS = 90 * 86_400_000;

export async function loadAgentTokens(
  store: Pick<IdentityStore, 'markAgentToken' | 'agentTokens' | 'isAgentToken'>,
  clock: Clock,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
  liveness: Pick<StoreLiveness, 'guard'> = { guard: (work) => work },
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
  async function read(): Promise<void> {
    // Includes expired tokens: the clock may be ahead.
    for (const { digest, expiresAt } of await store.agentTokens(0)) addBoth(digest, expiresAt);
  }
  invalidations.subscribeMissed(read);
  await read();

  async function persist(digest: string, until: EpochMs): Promise<void> {
    await store.markAgentToken(digest, until);
    invalidations.publish({ about: 'presented', digest, until });
  }

  return {
    sizes: () => ({ presented_tokens: marked.size, presented_tokens_stored: stored.size }),
    has(userId, token) {
      const current = invalidations.isCurrent();
      if (current && marked.size === 0) return false;
      return someInChain(token, (id) => {
        const digest = digestOf(userId, id);
        return marked.has(digest) || (!current && liveness.guard(store.isAgentToken(digest)));
      });
    },
    add(userId, { id, expiresAt }) {
      const digest = digestOf(userId, id);
      const until = expiresAt + LEEWAY_S * 1000;
      const storedUntil = stored.untilOf(digest);
      if (storedUntil !== undefined && until - storedUntil < RENEW_MS) return undefined;
      // Effective at once, before the store has confirmed.
      marked.add(digest, until);
      return persist(digest, until);
    },
  };
}

const digestOf = (userId: Uuid, tokenId: string): string => hash('sha256', `${userId}|${tokenId}`, 'base64url');
