import { hash } from 'node:crypto';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { AgentToken, IdentityStore } from '../store/contract.ts';
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

/**
 * How many tokens, clients and keys of one user are stored each for itself. If more are presented, all tokens and keys of
 * that user are agents' for as long as one of those could be valid: the number of stored ones remains bounded.
 */
export const MAX_ENTRIES_PER_USER = 1_000;

/** In place of a token's id: all tokens and keys of the user. No id of a token has this form. */
const ALL = '*';
/** The longest lifetime of a token of this service, and a day in which `add` does not renew the entry. */
const MIN_ALL_MS = 2 * 86_400_000;

export async function loadAgentTokens(
  store: Pick<IdentityStore, 'markAgentToken' | 'agentTokens' | 'isAgentToken'>,
  clock: Clock,
  invalidations: InvalidationBus = makeLocalInvalidationBus(),
  liveness: Pick<StoreLiveness, 'guard'> = { guard: (work) => work },
): Promise<AgentTokens> {
  const marked = new TokenDenylist(clock);
  const stored = new TokenDenylist(clock);
  const addBoth = ({ digest, expiresAt, userId }: AgentToken) => {
    marked.add(digest, expiresAt, userId ?? undefined);
    stored.add(digest, expiresAt);
  };
  invalidations.subscribe((item) => {
    if (item.about !== 'presented') return;
    addBoth({ digest: item.digest, expiresAt: item.until, userId: item.userId ?? null });
  });
  async function read(): Promise<void> {
    // Includes expired tokens: the clock may be ahead.
    for (const token of await store.agentTokens(0)) addBoth(token);
  }
  invalidations.subscribeMissed(read);
  await read();

  async function persist(userId: Uuid, digest: string, until: EpochMs): Promise<void> {
    await store.markAgentToken({ digest, expiresAt: until, userId });
    invalidations.publish({ about: 'presented', digest, until, userId });
  }

  function addDigest(userId: Uuid, digest: string, until: EpochMs): Promise<void> | undefined {
    const storedUntil = stored.untilOf(digest);
    if (storedUntil !== undefined && until - storedUntil < RENEW_MS) return undefined;
    // Effective at once, before the store has confirmed.
    marked.add(digest, until, userId);
    return persist(userId, digest, until);
  }

  /** For an entry that is not stored itself. */
  function addAll(userId: Uuid, until: EpochMs): Promise<void> | undefined {
    const now = referenceOf(clock);
    const least = Math.max(until + RENEW_MS, now + MIN_ALL_MS);
    return addDigest(userId, digestOf(userId, ALL), Math.min(least, now + CLIENT_MARK_MS));
  }

  return {
    sizes: () => ({ presented_tokens: marked.size, presented_tokens_stored: stored.size }),
    has(userId, token) {
      const current = invalidations.isCurrent();
      if (current && marked.size === 0) return false;
      return someInChain({ ...token, ancestors: [...(token.ancestors ?? []), ALL] }, (id) => {
        const digest = digestOf(userId, id);
        return marked.has(digest) || (!current && liveness.guard(store.isAgentToken(digest)));
      });
    },
    add(userId, { id, expiresAt }) {
      const digest = digestOf(userId, id);
      const until = expiresAt + LEEWAY_S * 1000;
      const isNew = marked.untilOf(digest) === undefined;
      return isNew && marked.countOf(userId) >= MAX_ENTRIES_PER_USER
        ? addAll(userId, until)
        : addDigest(userId, digest, until);
    },
  };
}

const digestOf = (userId: Uuid, tokenId: string): string => hash('sha256', `${userId}|${tokenId}`, 'base64url');
