import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Clock, referenceOf } from '../../domain/clock.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { atMost, type Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Caller } from '../../operations/operation.ts';
import type { AgentTokens } from '../../services/agent-tokens.ts';
import type { InvalidationBus } from '../../services/invalidation-bus.ts';
import {
  isInternalToken,
  LEEWAY_S,
  type Revocations,
  type TokenKey,
  type TokenRef,
  verifyToken,
} from '../../services/tokens.ts';
import type { User, UserCache } from '../../services/user-cache.ts';
import type { RateLimiter } from './rate-limiter.ts';

/** What somebody presents, as text: a bearer token or key, whatever header, parameter or packet brought it. */
export type Credential = string;

/** What a verifier found out about a credential. */
export interface Proof {
  /** A subject whose user is made on first sight, or a user that is known already. */
  subject: Pick<User, 'iss' | 'sub' | 'email' | 'emailVerified'> | { userId: Uuid };
  /** The API key's prefix. */
  key?: string;
  /** It acts in this tenant only: dead once its user has left it. */
  tenantId?: Uuid;
  roleCap?: Role;
  scopes: readonly Scope[] | null;
  platformAdmin: boolean;
  person: boolean;
  /** It is a browser's cookie session: it has a rate of its own. */
  cookie?: true;
  token: TokenRef | null;
  /** When the credential ends, where no token says it. */
  endsAt?: EpochMs;
  /** Told of each request that it is good for. */
  used?(at: EpochMs): void;
  /** How long the proof may be remembered: afterwards the credential is verified again. */
  until: EpochMs;
}

export type ProofOfUser = Proof & { subject: { userId: Uuid } };

/** One kind of credential. The first verifier that recognises a credential decides on it. */
export interface Verifier {
  recognises(credential: Credential): boolean;
  verify(credential: Credential): Promise<Proof | null>;
}

export interface RequestOrigin {
  /** The edge: `rest`, `websocket`, … */
  via: string;
  requestId: Uuid;
  /** Of the client, whose failures are counted; null where nobody is trying just now. */
  address: string | null;
}

export interface Identity extends SizeReporter {
  /**
   * Who presents this. Nothing presented gives a caller without a user: whether one is needed is the operation's
   * question. A credential seen before costs no signature check and, when its user did not change, no query. A failure
   * is counted against the client's address, and refused with `RATE_LIMIT_EXCEEDED` where there were too many. A token
   * that comes by `/mcp` is no person's from then on, by any edge: that is durable before it is answered.
   */
  authenticate(credential: Credential | null, asking: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /** Who a proof about a known user stands for now, where the edge found the proof by itself: a cookie's session. */
  resolveCaller(proof: ProofOfUser, asking: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /** Why nobody looks at what was never seen before: its address failed far too often. Null where it is looked at. */
  refuseUnseenCredential(asking: RequestOrigin): Outcome<Caller> | null;
  /** What is answered to a credential that is none: counted against the client's address. */
  refuseCredential(asking: RequestOrigin): Outcome<Caller>;
}

/** The edge whose callers are no persons (contract §5). */
const AGENTS = 'mcp';
const REMEMBERED = 20_000;
const MAX_CREDENTIAL_LENGTH = 8_192;

interface CachedProof {
  proof: Proof;
  userId: Uuid;
}

export function makeIdentity(parts: {
  verifiers: readonly Verifier[];
  users: UserCache;
  revocations: Revocations;
  agentTokens: AgentTokens;
  invalidations: InvalidationBus;
  gate: Pick<RateLimiter, 'signInRefusal' | 'recordFailedSignIn'>;
  clock: Clock;
  newId(): Uuid;
}): Identity {
  const { verifiers, users, revocations, agentTokens, gate, clock, newId } = parts;
  /** Where the proof of a key is remembered. */
  const ofKey = new Map<string, string>();
  const remembered = new LRUCache<string, CachedProof>({
    max: REMEMBERED,
    dispose: ({ proof: { key } }) => void (key !== undefined && ofKey.delete(key)),
  });
  /** Counts what was forgotten: a proof that was found out meanwhile may be of the past. */
  let forgotten = 0;

  parts.invalidations.subscribe((item) => {
    if (item.about !== 'key') return;
    forgotten += 1;
    remembered.delete(ofKey.get(item.prefix) ?? '');
  });

  function remember(digest: string, found: CachedProof): void {
    remembered.set(digest, found);
    if (found.proof.key !== undefined) ofKey.set(found.proof.key, digest);
  }

  function notValid({ address }: RequestOrigin): Outcome<Caller> {
    const refusal = address === null ? null : gate.recordFailedSignIn(address);
    return refusal === null
      ? refuse('UNAUTHENTICATED', 'The credential is not valid, or no longer.')
      : refused(refusal);
  }

  function barsUnseen({ address }: RequestOrigin): Outcome<Caller> | null {
    const refusal = address === null ? null : gate.signInRefusal(address);
    return refusal === null ? null : refused(refusal);
  }

  function isPerson({ proof, userId }: CachedProof, { via }: RequestOrigin): boolean {
    if (!proof.person || via === AGENTS) return false;
    return proof.token === null || !agentTokens.has(userId, proof.token.id);
  }

  function callerOf(found: CachedProof, user: User | null, asking: RequestOrigin): Outcome<Caller> {
    const { proof } = found;
    if (user === null || (proof.token !== null && revocations.has(proof.token.id))) return notValid(asking);
    if (proof.tenantId !== undefined && proof.tenantId !== user.tenantId) return notValid(asking);
    proof.used?.(clock.now());
    return done({
      user,
      principal: {
        kind: 'user',
        id: user.id,
        ...(proof.key !== undefined && { key: proof.key }),
        via: asking.via,
        person: isPerson(found, asking),
        requestId: asking.requestId,
      },
      tenantId: user.tenantId,
      role: proof.roleCap === undefined ? user.role : atMost(user.role, proof.roleCap),
      scopes: proof.scopes,
      platformAdmin: proof.platformAdmin,
      ...(proof.cookie && { cookie: true }),
      token: proof.token,
      endsAt: proof.token?.expiresAt ?? proof.endsAt ?? null,
      requestId: asking.requestId,
      address: asking.address,
    });
  }

  function standing(found: CachedProof, asking: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>> {
    const marking = mark(found, asking);
    if (marking !== undefined) return marking.then(() => standing(found, asking));
    const user = users.cached(found.userId);
    return user === undefined
      ? users.get(found.userId).then((loaded) => callerOf(found, loaded, asking))
      : callerOf(found, user, asking);
  }

  /** Undefined where there is nothing (more) to mark. */
  function mark({ proof, userId }: CachedProof, { via }: RequestOrigin): Promise<void> | undefined {
    return via === AGENTS && proof.token !== null ? agentTokens.add(userId, proof.token) : undefined;
  }

  /** Not remembered where it may have died while it was looked up: then it is looked up again. */
  async function proofOf(credential: Credential): Promise<{ proof: Proof | null; since: number }> {
    for (;;) {
      const since = forgotten;
      const proof = await verifiers.find((verifier) => verifier.recognises(credential))?.verify(credential);
      if (since === forgotten) return { proof: proof ?? null, since };
    }
  }

  async function firstSight(credential: Credential, digest: string, asking: RequestOrigin): Promise<Outcome<Caller>> {
    const barred = barsUnseen(asking);
    if (barred !== null) return barred;
    const { proof, since } = await proofOf(credential);
    if (proof === null) return notValid(asking);
    const { subject } = proof;
    const userId =
      'userId' in subject
        ? subject.userId
        : (await users.findOrCreate({ id: newId(), ...subject, createdAt: clock.now() })).id;
    const found = { proof, userId };
    if (since === forgotten) remember(digest, found);
    await mark(found, asking);
    return callerOf(found, await users.get(userId), asking);
  }

  return {
    authenticate(credential, asking) {
      if (credential === null) return done(anonymousCaller(asking));
      if (credential.length > MAX_CREDENTIAL_LENGTH) return notValid(asking);
      const digest = hash('sha256', credential, 'base64url');
      const found = remembered.get(digest);
      if (found === undefined) return firstSight(credential, digest, asking);
      if (found.proof.until <= referenceOf(clock)) {
        remembered.delete(digest);
        return firstSight(credential, digest, asking);
      }
      return standing(found, asking);
    },
    refuseUnseenCredential: barsUnseen,
    refuseCredential: notValid,
    sizes: () => ({ credentials: remembered.size, credentials_of_keys: ofKey.size }),
    resolveCaller: (proof, asking) => standing({ proof, userId: proof.subject.userId }, asking),
  };
}

/** Internal tokens: EdDSA, signed with our own key. */
export const internalTokenVerifier = (key: TokenKey, clock: Clock): Verifier => ({
  recognises: isInternalToken,
  async verify(credential) {
    const claims = await verifyToken(key, credential, referenceOf(clock));
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

const anonymousCaller = ({ via, requestId, address }: RequestOrigin): Caller => ({
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
});

const refused = (refusal: Refusal): Outcome<Caller> => ({ ok: false, refusal });
