import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Clock, referenceOf } from '../../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Log } from '../../domain/log.ts';
import { entriesAtMost } from '../../domain/lru-bound.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { atMost, type Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import { originOf } from '../../operations/audit-recording.ts';
import type { Caller } from '../../operations/operation.ts';
import { type AgentTokens, CLIENT_MARK_MS, keyEntry } from '../../services/agent-tokens.ts';
import type { AuditWriter } from '../../services/audit-writer.ts';
import type { InvalidationBus } from '../../services/invalidation-bus.ts';
import {
  isInternalToken,
  LEEWAY_S,
  type Revocations,
  someInChain,
  TOKEN_ISSUER,
  type TokenKey,
  type TokenRef,
  verifyToken,
} from '../../services/tokens.ts';
import type { User, UserCache } from '../../services/user-cache.ts';
import { isSignedOut, type UserSessions } from '../../services/user-sessions.ts';
import type { RequestRateLimiter } from './rate-limiter.ts';

/** A bearer token or key as text, from a header, a parameter or a packet. */
export type Credential = string;

/** The result of verifying a credential. */
export interface Proof {
  /** A subject, whose user is created on first use, or an existing user. */
  subject: Pick<User, 'iss' | 'sub' | 'email' | 'emailVerified'> | { userId: Uuid };
  /** The API key's prefix. */
  key?: string;
  /** The only tenant it is valid for: it is refused once its user has left that tenant. */
  tenantId?: Uuid;
  roleCap?: Role;
  scopes: readonly Scope[] | null;
  /** Of a restricted API key. */
  restriction?: KeyRestriction;
  platformAdmin: boolean;
  person: boolean;
  /** Set for cookie sessions of browsers, which have a separate rate limit. */
  cookie?: true;
  token: TokenRef | null;
  /** Ids of the clients of the identity provider that got the token, also among its ancestors. */
  clients?: readonly string[];
  /** The key of the same client during the grace of a rotation, as an entry of `AgentTokens`. */
  sameClient?: { userId: Uuid; id: string; expiresAt: EpochMs };
  /** Expiry of a credential without a token. */
  endsAt?: EpochMs;
  /** Called for each request that the credential authenticates. */
  used?(at: EpochMs): void;
  /** How long the proof may be cached; afterwards the credential is verified again. */
  until: EpochMs;
}

export type ProofOfUser = Proof & { subject: { userId: Uuid } };

/**
 * Whom a credential names that did not authenticate them: the user or, with `key`, the owner of an API key. Of a token only
 * if its signature is valid, because anyone can write a name into a token.
 */
export type Claimant =
  | { userId: Uuid; tenantId?: Uuid | undefined; key?: string | undefined }
  | { subject: Pick<User, 'iss' | 'sub'> };

/** Verifies one kind of credential. The first verifier that recognises a credential decides. */
export interface Verifier {
  recognises(credential: Credential): boolean;
  /** Calls `refused` before it returns null if the credential names someone. */
  verify(credential: Credential, refused?: (claimant: Claimant) => void): Promise<Proof | null>;
}

/** The user that a credential belongs to, and the tenant that it acts in: not authenticated yet. */
export interface CredentialOwner {
  userId: Uuid;
  tenantId: Uuid | null;
  platformAdmin: boolean;
}

export interface RequestOrigin {
  /** The edge: `rest`, `websocket`, … */
  via: string;
  requestId: Uuid;
  /** The client's address, for which failures are counted; null if no client is signing in at the moment. */
  address: string | null;
  /** The client as it calls itself. */
  client?: string | null | undefined;
}

/** The edge whose callers are agents, not persons (contract §5). */
const AGENT_EDGE = 'mcp';
const MAX_CACHED_PROOFS = 20_000;
const MAX_CREDENTIAL_LENGTH = 8_192;

export interface AuthenticatorParts {
  verifiers: readonly Verifier[];
  users: UserCache;
  revocations: Revocations;
  agentTokens: AgentTokens;
  userSessions: Pick<UserSessions, 'recordUse'>;
  invalidations: InvalidationBus;
  rateLimiter: Pick<RequestRateLimiter, 'signInRefusal' | 'recordFailedSignIn'>;
  audit: Pick<AuditWriter, 'recordFailedSignIn'>;
  log: Log;
  clock: Clock;
  newId(): Uuid;
}

interface CachedProof {
  proof: Proof;
  userId: Uuid;
}

/** Authenticates the credentials of all edges; caches the proofs that they are valid. */
export class Authenticator implements SizeReporter {
  readonly #parts: AuthenticatorParts;
  /** Digest of an API key, under which its proof is cached, by the key's prefix. */
  readonly #digestByKey = new Map<string, string>();
  readonly #proofs: LRUCache<string, CachedProof>;
  /** Counts evictions by invalidation: a proof verified while one occurred may be outdated and is not cached. */
  #evictions = 0;

  constructor(parts: AuthenticatorParts) {
    this.#parts = parts;
    this.#proofs = new LRUCache({
      ...entriesAtMost(MAX_CACHED_PROOFS),
      ttl: parts.invalidations.entryLifeMs,
      dispose: ({ proof: { key } }) => void (key !== undefined && this.#digestByKey.delete(key)),
    });
    parts.invalidations.subscribeMissed(() => {
      this.#evictions += 1;
      for (const digest of [...this.#digestByKey.values()]) this.#proofs.delete(digest);
    });
    parts.invalidations.subscribe((invalidation) => {
      if (invalidation.about !== 'key') return;
      this.#evictions += 1;
      this.#proofs.delete(this.#digestByKey.get(invalidation.prefix) ?? '');
    });
  }

  /**
   * Authenticates a credential. Without one, the caller has no user: the operation decides whether it requires one. A
   * cached credential needs no signature check and, unless its user changed, no query. A failure is counted against the
   * client's address, and refused with `RATE_LIMIT_EXCEEDED` after too many. A token that was used on `/mcp` no longer
   * counts as a person's, and a key is an agent's, on any edge: this is durable before the request is answered.
   */
  authenticate(credential: Credential | null, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>> {
    if (credential === null) return done(anonymousCaller(origin));
    if (credential.length > MAX_CREDENTIAL_LENGTH) return this.refuseCredential(origin);
    const digest = hash('sha256', credential, 'base64url');
    const cached = this.#proofs.get(digest);
    if (cached === undefined) return this.#verifyNew(credential, digest, origin);
    if (cached.proof.until <= referenceOf(this.#parts.clock)) {
      this.#proofs.delete(digest);
      return this.#verifyNew(credential, digest, origin);
    }
    // Of a token, only the revocation can change, which is checked separately.
    if (cached.proof.key !== undefined && !this.#parts.invalidations.isCurrent())
      return this.#verifyAgain(credential, cached, origin);
    return this.#currentCaller(cached, origin);
  }

  /**
   * The owner of a credential, to find the node that authenticates it; null if there is none. Unlike `authenticate` it
   * counts no failure, creates no user and does not mark the token as presented; nor does it check whether the token was
   * revoked. Returns a promise only if the proof or the user is not in memory. An address that failed far too often gets
   * null for credentials that are not cached. Throws `StoreUnavailable`.
   */
  ownerOf(credential: Credential, address: string): CredentialOwner | null | Promise<CredentialOwner | null> {
    if (credential.length > MAX_CREDENTIAL_LENGTH) return null;
    const digest = hash('sha256', credential, 'base64url');
    const cached = this.#proofs.get(digest);
    if (cached !== undefined && cached.proof.until > referenceOf(this.#parts.clock)) return this.#ownerOf(cached);
    if (this.#parts.rateLimiter.signInRefusal(address) !== null) return null;
    return this.#verifyOwner(credential, digest);
  }

  /** Whether a text has the form of a credential; it is not verified. */
  recognises(text: string): boolean {
    return text.length <= MAX_CREDENTIAL_LENGTH && this.#parts.verifiers.some((verifier) => verifier.recognises(text));
  }

  sizes(): CollectionSizes {
    return { credentials: this.#proofs.size, credentials_of_keys: this.#digestByKey.size };
  }

  /** The current caller for a proof that the edge itself found: a cookie session of an existing user. */
  resolveCaller(proof: ProofOfUser, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>> {
    return this.#currentCaller({ proof, userId: proof.subject.userId }, origin);
  }

  /**
   * Refuses an invalid credential, counts the failure against the client's address, and audits it if the credential names
   * someone. The refusal is the same whether it does, and is not delayed by the audit.
   */
  refuseCredential(origin: RequestOrigin, claimant: Claimant | null = null): Outcome<Caller> {
    const { address } = origin;
    // Without an address no client signs in: the credential of an open connection is checked again.
    if (claimant !== null && address !== null) void this.#auditFailure(claimant, origin);
    const refusal = address === null ? null : this.#parts.rateLimiter.recordFailedSignIn(address);
    return refusal === null
      ? refuse('UNAUTHENTICATED', 'The credential is invalid, expired or revoked.')
      : refused(refusal);
  }

  /** Refuses to verify credentials that are not cached if the address failed far too often; otherwise null. */
  refuseUnseenCredential({ address }: RequestOrigin): Outcome<Caller> | null {
    const refusal = address === null ? null : this.#parts.rateLimiter.signInRefusal(address);
    return refusal === null ? null : refused(refusal);
  }

  #cacheProof(digest: string, cached: CachedProof): void {
    this.#proofs.set(digest, cached);
    if (cached.proof.key !== undefined) this.#digestByKey.set(cached.proof.key, digest);
  }

  /** Whether the caller is an agent, not a person. */
  #isAgent({ proof, userId }: CachedProof, { via }: RequestOrigin): boolean | Promise<boolean> {
    if (!proof.person || via === AGENT_EDGE) return true;
    return proof.token !== null && this.#parts.agentTokens.has(userId, proof.token);
  }

  #callerOf(cached: CachedProof, user: User | null, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>> {
    const { token } = cached.proof;
    const { revocations } = this.#parts;
    const revoked = token !== null && someInChain(token, revocations.has);
    const agent = this.#isAgent(cached, origin);
    if (typeof revoked === 'boolean' && typeof agent === 'boolean')
      return this.#checkedCaller(cached, user, { revoked, agent }, origin);
    return Promise.all([revoked, agent]).then(([revoked, agent]) =>
      this.#checkedCaller(cached, user, { revoked, agent }, origin),
    );
  }

  #checkedCaller(
    { proof }: CachedProof,
    user: User | null,
    { revoked, agent }: { revoked: boolean; agent: boolean },
    origin: RequestOrigin,
  ): Outcome<Caller> {
    const { key, tenantId } = proof;
    const hasLeft = user !== null && tenantId !== undefined && tenantId !== user.tenantId;
    if (user === null || revoked || hasLeft || isSignedOut(user, proof.token))
      return this.refuseCredential(origin, user && { userId: user.id, key, tenantId });
    proof.used?.(this.#parts.clock.now());
    if (proof.token !== null && proof.person) this.#parts.userSessions.recordUse(user.id, proof.token, origin);
    return done({
      user,
      principal: {
        id: user.id,
        ...(proof.key !== undefined && { key: proof.key }),
        via: origin.via,
        kind: 'user',
        person: !agent,
        requestId: origin.requestId,
      },
      tenantId: user.tenantId,
      role: proof.roleCap === undefined ? user.role : atMost(user.role, proof.roleCap),
      scopes: proof.scopes,
      ...(proof.restriction && { restriction: proof.restriction }),
      platformAdmin: proof.platformAdmin,
      ...(proof.cookie && { cookie: true }),
      token: proof.token,
      endsAt: proof.token?.expiresAt ?? proof.endsAt ?? null,
      requestId: origin.requestId,
      address: origin.address,
      client: origin.client ?? null,
    });
  }

  #currentCaller(cached: CachedProof, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>> {
    const marked = this.#markPresented(cached, origin);
    if (marked !== undefined) return marked.then(() => this.#currentCaller(cached, origin));
    const user = this.#parts.users.cached(cached.userId);
    return user === undefined
      ? this.#parts.users.get(cached.userId).then((loaded) => this.#callerOf(cached, loaded, origin))
      : this.#callerOf(cached, user, origin);
  }

  /** Records that a token, its clients or a key were used by an agent; undefined if there is nothing to record. */
  #markPresented({ proof, userId }: CachedProof, { via }: RequestOrigin): Promise<void> | undefined {
    if (via !== AGENT_EDGE) return undefined;
    const { key, token, clients = [], endsAt, sameClient } = proof;
    const presented = key === undefined ? token : keyEntry(key, endsAt);
    if (presented === null) return undefined;
    const expiresAt = referenceOf(this.#parts.clock) + CLIENT_MARK_MS;
    const marks = clients.map((id) => ({ id, expiresAt }));
    // The clients of a token are among its ancestors: only one that is valid for longer than their marks needs its own.
    const isCovered = clients.length > 0 && presented.expiresAt <= expiresAt;
    const entries = isCovered ? marks : [presented, ...marks];
    const pending = entries.flatMap((entry) => this.#parts.agentTokens.add(userId, entry) ?? []);
    if (sameClient !== undefined)
      pending.push(...[this.#parts.agentTokens.add(sameClient.userId, sameClient) ?? []].flat());
    return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
  }

  /** Verifies a credential; again if an invalidation occurred during the verification. */
  async #proofOf(credential: Credential): Promise<{ proof: Proof | null; claimant: Claimant | null; since: number }> {
    for (;;) {
      const since = this.#evictions;
      let claimant: Claimant | null = null;
      const verifier = this.#parts.verifiers.find((one) => one.recognises(credential));
      const proof = await verifier?.verify(credential, (named) => {
        claimant = named;
      });
      if (since === this.#evictions) return { proof: proof ?? null, claimant, since };
    }
  }

  async #auditFailure(claimant: Claimant, origin: RequestOrigin): Promise<void> {
    const { users, audit, log } = this.#parts;
    try {
      const user =
        'subject' in claimant ? await users.findBySubject(claimant.subject) : await users.get(claimant.userId);
      if (user === null) return;
      const { tenantId = user.tenantId, key = null } = 'subject' in claimant ? {} : claimant;
      audit.recordFailedSignIn({ tenantId, by: user.id, key, via: origin.via, ...originOf(origin) });
    } catch (error) {
      log.warn({ err: error, request_id: origin.requestId }, 'failed sign-in not audited');
    }
  }

  #ownerOf({ proof, userId }: CachedProof): CredentialOwner | null | Promise<CredentialOwner | null> {
    const { platformAdmin, tenantId } = proof;
    if (tenantId !== undefined) return { userId, tenantId, platformAdmin };
    const owner = (user: User | null) => user && { userId, tenantId: user.tenantId, platformAdmin };
    const user = this.#parts.users.cached(userId);
    return user === undefined ? this.#parts.users.get(userId).then(owner) : owner(user);
  }

  async #verifyOwner(credential: Credential, digest: string): Promise<CredentialOwner | null> {
    const { proof, since } = await this.#proofOf(credential);
    if (proof === null) return null;
    const { subject } = proof;
    const userId = 'userId' in subject ? subject.userId : (await this.#parts.users.findBySubject(subject))?.id;
    if (userId === undefined) return null;
    const cached = { proof, userId };
    if (since === this.#evictions && this.#parts.invalidations.isCurrent()) this.#cacheProof(digest, cached);
    return this.#ownerOf(cached);
  }

  /** Verifies a cached credential again while its proof may be outdated. */
  async #verifyAgain(credential: Credential, cached: CachedProof, origin: RequestOrigin): Promise<Outcome<Caller>> {
    const { proof, claimant } = await this.#proofOf(credential);
    return proof === null ? this.refuseCredential(origin, claimant) : this.#currentCaller({ ...cached, proof }, origin);
  }

  async #verifyNew(credential: Credential, digest: string, origin: RequestOrigin): Promise<Outcome<Caller>> {
    const refusal = this.refuseUnseenCredential(origin);
    if (refusal !== null) return refusal;
    const { proof, claimant, since } = await this.#proofOf(credential);
    if (proof === null) return this.refuseCredential(origin, claimant);
    const { subject } = proof;
    const userId =
      'userId' in subject
        ? subject.userId
        : (
            await this.#parts.users.findOrCreate({
              id: this.#parts.newId(),
              ...subject,
              createdAt: this.#parts.clock.now(),
            })
          ).id;
    const cached = { proof, userId };
    if (since === this.#evictions && this.#parts.invalidations.isCurrent()) this.#cacheProof(digest, cached);
    await this.#markPresented(cached, origin);
    return this.#callerOf(cached, await this.#parts.users.get(userId), origin);
  }
}

/** Verifies internal tokens: EdDSA, signed with the service's key. */
export const internalTokenVerifier = (key: TokenKey, clock: Clock): Verifier => ({
  recognises: isInternalToken,
  async verify(credential, refused) {
    const claims = await verifyToken(key, credential, referenceOf(clock), ({ sub, userId }) =>
      refused?.(userId === null ? { subject: { iss: TOKEN_ISSUER, sub } } : { userId }),
    );
    if (claims === null) return null;
    const { iss, sub, userId, email, emailVerified, scopes, platformAdmin, token } = claims;
    return {
      subject: userId === null ? { iss, sub, email, emailVerified } : { userId },
      scopes,
      platformAdmin,
      person: true,
      token,
      until: token.expiresAt + LEEWAY_S * 1000,
    };
  },
});

const anonymousCaller = ({ via, requestId, address, client = null }: RequestOrigin): Caller => ({
  user: null,
  principal: { kind: 'user', id: 'nobody', via, requestId },
  tenantId: null,
  role: 'none',
  scopes: null,
  platformAdmin: false,
  token: null,
  endsAt: null,
  requestId,
  address,
  client,
});

const refused = (refusal: Refusal): Outcome<Caller> => ({ ok: false, refusal });
