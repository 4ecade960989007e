import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { done, type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import { mayGrant, type Scope } from '../domain/scopes.ts';
import { SealBroken, type SealedPlace } from '../domain/sealing.ts';
import { isUuid } from '../domain/uuid.ts';
import type { Json, JsonObject, Uuid } from '../domain/values.ts';
import { payloadHash } from '../protocol/canonical.ts';
import {
  CommitUnknown,
  DROPPED_ANSWER,
  IdempotencyConflict,
  type IdempotencyRow,
  SEALED_HASH,
} from '../store/contract.ts';
import type { Answer, Caller, IdempotencyRecord, Operation, Services } from './operation.ts';

/** A client's request with an `Idempotency-Key`. */
export interface KeyedRequest {
  /** 1–255 visible ASCII characters; validated by the edge. */
  key: string;
  method: string;
  /** Without its root: `/v1/homes` and `/api/v1/homes` are the same path. */
  path: string;
  /** The request's body, or null. */
  body: Json;
}

/** What the stored answer of a request is sealed for. */
export const answerBinding = ({
  principal,
  method,
  path,
  key,
}: Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>): SealedPlace => ({
  purpose: 'stored answers',
  aad: `idempotency|${principal}|${method}|${path}|${key}`,
});

const LIFE_MS = 24 * 60 * 60 * 1000;
const RETRY_AFTER_S = 1;
/**
 * Maximum time to hold a claim, longer than any commit takes: a store call that never returns must not hold its key for
 * ever. If it commits later after all, the store refuses it once another request has used the key.
 */
const MAX_CLAIM_MS = 120_000;

/** A claimed key: the stored answer, or the data that the request needs to run. */
interface Claim {
  stored: Replayed | null;
  idempotent: IdempotencyRecord;
  /** Stores the answer unless it was stored with its effect. */
  storeAnswer(answer: Answer<unknown>): Promise<void>;
}

interface ClaimRequest {
  caller: Caller;
  operation: Operation;
  request: KeyedRequest;
}

/**
 * The credential of a request, as far as it determines which others get its answer: an API key, or a token with its
 * scopes (absent: everything that the role allows).
 */
interface Requester {
  key?: string;
  /** Absent for tokens that count as no person's: of programs, and those presented at `/mcp`. */
  person?: true;
  scopes?: readonly Scope[];
}

interface SealedAnswer {
  /** The caller's tenant at the time: a user who has moved to another tenant does not see the answer. */
  tenantId: Uuid | null;
  /** Absent in rows of earlier builds. */
  by?: Requester;
  body: Json;
  plan?: Json;
  /** Absent in rows of earlier builds. */
  auditId?: Uuid;
  /** SHA-256, hex, of the JCS form of the request's body. Absent in rows of earlier builds. */
  bodyHash?: string;
}

interface RunningRequest {
  by: Requester;
  bodyHash: string;
  /** Milliseconds on the process's monotonic clock. */
  since: number;
}

type ClaimServices = Pick<Services, 'clock' | 'newId' | 'open' | 'seal' | 'store'>;

export type Replayed = Answer<unknown> & {
  replayed?: true;
  /** Id of the audit row of the request, if it is known. */
  auditId?: Uuid;
  /** If the stored answer has a secret, its owner as the audit names it: a device or an API key. */
  secretOf?: string;
};

/**
 * Claims of idempotency keys, one instance for the process. At most one request with a key runs at a time; its claim is
 * held until the outcome of its commit is known, even if the caller was answered earlier. The store's unique key is the
 * second line of defence.
 */
export class IdempotencyKeys {
  readonly #services: ClaimServices;
  readonly #now: () => number;
  /** Ordered by `since`. */
  readonly #running = new Map<string, RunningRequest>();

  constructor(services: ClaimServices, now: () => number = () => performance.now()) {
    this.#services = services;
    this.#now = now;
  }

  /** Number of claimed keys. */
  get size(): number {
    return this.#running.size;
  }

  sizes(): CollectionSizes {
    return { idempotency_keys_running: this.#running.size };
  }

  /**
   * Returns the stored answer, or that of `run`. Refuses another body (422), and with 409 a second request while the first
   * runs, and a request with a credential that must not get the answer of the first (`mayReceive`). Takes over a row left
   * `running` by a killed process, with the ids that it had reserved.
   */
  async run(
    request: ClaimRequest,
    run: (idempotent: IdempotencyRecord) => Promise<Outcome<Answer<unknown>>>,
  ): Promise<Outcome<Replayed>> {
    const { principal } = request.caller;
    const { method, path, key } = request.request;
    const scope = answerBinding({ principal: principal.id, method, path, key }).aad;
    const bodyHash = payloadHash(request.request.body);
    this.#releaseOverdue();
    const by = requesterOf(request.caller);
    const first = this.#running.get(scope);
    if (first !== undefined) {
      if (!mayReceive(by, first.by)) return otherCredential();
      return first.bodyHash === bodyHash ? stillRunning() : bodyMismatch();
    }
    const running = { by, bodyHash, since: this.#now() };
    this.#running.set(scope, running);
    const release = () => {
      if (this.#running.get(scope) === running) this.#running.delete(scope);
    };

    let ended: Promise<void> | null = null;
    try {
      return await this.#once(request, bodyHash, run);
    } catch (fault) {
      if (fault instanceof CommitUnknown) ended = fault.ended;
      throw fault;
    } finally {
      if (ended === null) release();
      else void ended.then(release);
    }
  }

  async #once(
    request: ClaimRequest,
    bodyHash: string,
    run: (idempotent: IdempotencyRecord) => Promise<Outcome<Answer<unknown>>>,
  ): Promise<Outcome<Replayed>> {
    const claim = await this.#claim(request, bodyHash);
    if (!claim.ok) return claim;
    const { stored, idempotent, storeAnswer } = claim.value;
    if (stored !== null) return done({ ...stored, replayed: true });
    try {
      const outcome = await run(idempotent);
      if (outcome.ok) await storeAnswer(outcome.value);
      // The refusal may be due to an earlier attempt with an unknown outcome: then that attempt's answer is returned.
      return outcome.ok ? outcome : await this.#storedOr(outcome, request, bodyHash);
    } catch (fault) {
      if (!(fault instanceof IdempotencyConflict)) throw fault;
      return await this.#storedOr(stillRunning(), request, bodyHash);
    }
  }

  async #storedOr(
    refused: { ok: false; refusal: Refusal },
    request: ClaimRequest,
    bodyHash: string,
  ): Promise<Outcome<Replayed>> {
    const claim = await this.#claim(request, bodyHash);
    if (!claim.ok) return claim;
    return claim.value.stored === null ? refused : done({ ...claim.value.stored, replayed: true });
  }

  async #claim(
    { caller, operation, request: { method, path, key } }: ClaimRequest,
    bodyHash: string,
  ): Promise<Outcome<Claim>> {
    const { clock, newId, store, seal } = this.#services;
    const id = { principal: caller.principal.id, method, path, key };
    const now = clock.now();
    const row = await store.idempotency.find(id);
    const live = row !== null && row.expiresAt > now ? row : null;
    const place = answerBinding(id);
    const by = requesterOf(caller);
    const sealed = live === null || live.answer === DROPPED_ANSWER ? null : this.#open(live.answer, place);
    const isOfTenant =
      sealed !== null && sealed !== 'unreadable' && (operation.role === 'none' || sealed.tenantId === caller.tenantId);
    const isOpen =
      isOfTenant && caller.restriction === undefined && isForEveryCredential(live?.subject ?? null, sealed);
    if (isOfTenant && !isOpen && !mayReceive(by, sealed.by)) return otherCredential();
    if (live?.answer === DROPPED_ANSWER) return answerDropped();
    if (sealed === 'unreadable') return answerUnreadable();
    if (live !== null && (sealed?.bodyHash ?? live.bodyHash) !== bodyHash) return bodyMismatch();
    const answer = isOfTenant ? sealed : null;

    const auditId = newId();
    let replaces = row?.answer;
    const makeRow = (state: IdempotencyRow['state'], status: number, content: Pick<SealedAnswer, 'body' | 'plan'>) => ({
      ...id,
      bodyHash: SEALED_HASH,
      state,
      status,
      answer: seal(
        JSON.stringify({ tenantId: caller.tenantId, by, bodyHash, auditId, ...content } satisfies SealedAnswer),
        place,
      ),
      subject: null,
      expiresAt: now + LIFE_MS,
      ...(replaces !== undefined && { replaces }),
    });
    const idempotent: IdempotencyRecord = {
      reserved: live?.state === 'running' ? (answer?.plan ?? null) : null,
      auditId,
      rowCreated: false,
      toRow({ body, status }, subject) {
        idempotent.rowCreated = true;
        const content = { body: body as JsonObject };
        return { ...makeRow('done', status ?? 0, content), subject: subject ?? null };
      },
      reserve: async (plan) => {
        const begun = makeRow('running', 0, { body: null, plan });
        await store.idempotency.put(begun);
        replaces = begun.answer;
      },
    };
    return done({
      stored: live?.state === 'done' && answer !== null ? storedAnswer(live, answer) : null,
      idempotent,
      storeAnswer: async (fresh) => {
        if (!idempotent.rowCreated) await store.idempotency.put(idempotent.toRow(fresh));
      },
    });
  }

  #open(answer: string, place: SealedPlace): SealedAnswer | 'unreadable' {
    try {
      return JSON.parse(this.#services.open(answer, place)) as SealedAnswer;
    } catch (error) {
      if (error instanceof SealBroken) return 'unreadable';
      throw error;
    }
  }

  #releaseOverdue(): void {
    for (const [scope, { since }] of this.#running) {
      if (this.#now() - since < MAX_CLAIM_MS) return;
      this.#running.delete(scope);
    }
  }
}

/** Status 0: the operation's default status. */
const storedAnswer = (row: IdempotencyRow, { body, auditId }: SealedAnswer): Replayed => ({
  body,
  ...(auditId !== undefined && { auditId }),
  ...(row.status !== 0 && { status: row.status }),
  ...(row.subject !== null && { secretOf: isUuid(row.subject) ? `device:${row.subject}` : row.subject }),
});

const requesterOf = ({ principal, scopes }: Caller): Requester =>
  principal.key === undefined
    ? { ...(principal.person === true && { person: true }), ...(scopes !== null && { scopes }) }
    : { key: principal.key };

/**
 * Whether a caller may get the answer of a request by `first`, which is looked up before the checks of the operation
 * itself: with an API key only its own answers; with a token those of tokens of the same kind (a person's or not) that had
 * no other scopes. An answer of an earlier build, whose requester is not known, is only for a person with all scopes unless
 * it is for every credential (`isForEveryCredential`).
 */
function mayReceive(caller: Requester, first: Requester = { person: true }): boolean {
  if (caller.key !== first.key || caller.person !== first.person) return false;
  return mayGrant(caller.scopes ?? null, first.scopes ?? null);
}

/** Members of answers that are a credential, confirm a change, or may contain either. */
const CREDENTIAL_NAME = /(?:^|_)(?:secret|token|ticket|password|link|url)$|^(?:api_)?key$/;

const hasCredential = (value: Json): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(value).some(
    ([name, member]) => (typeof member === 'string' && CREDENTIAL_NAME.test(name)) || hasCredential(member),
  );

/**
 * Whether an answer was stored by an earlier build, which does not name the requester, and has no credential: such builds
 * gave it to every credential of the user, and their clients repeat requests until it expires.
 */
const isForEveryCredential = (subject: string | null, { by, body, plan = null }: SealedAnswer): boolean =>
  by === undefined && subject === null && !hasCredential([body, plan]);

const stillRunning = () =>
  refuse('CONFLICT', 'A request with this Idempotency-Key is still running.', { retryAfterS: RETRY_AFTER_S });

const otherCredential = () =>
  refuse('CONFLICT', 'This Idempotency-Key was used with another credential of yours. Use another key.');

const answerDropped = () =>
  refuse('CONFLICT', 'The request with this Idempotency-Key was executed; its secret was replaced or revoked since.');

const answerUnreadable = () =>
  refuse(
    'CONFLICT',
    'This Idempotency-Key was used, and the stored answer cannot be decrypted. Check whether the request took effect before you send it with another key.',
  );

const bodyMismatch = () => refuse('IDEMPOTENCY_MISMATCH', 'This Idempotency-Key was used with another body.');
