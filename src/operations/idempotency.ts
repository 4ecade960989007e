import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { done, type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import type { Json, JsonObject, Uuid } from '../domain/values.ts';
import { payloadHash } from '../protocol/canonical.ts';
import { CommitUnknown, IdempotencyConflict, type IdempotencyRow } from '../store/contract.ts';
import type { Answer, Caller, IdempotencyRecord, Operation, Services } from './operation.ts';

/** What the client sent with its `Idempotency-Key`. */
export interface KeyedRequest {
  /** 1–255 visible ASCII characters; the edge checked it. */
  key: string;
  method: string;
  /** Without its root: `/v1/homes` and `/api/v1/homes` are one path. */
  path: string;
  /** The request's body; null where it had none. */
  body: Json;
}

const LIFE_MS = 24 * 60 * 60 * 1000;
const RETRY_AFTER_S = 1;
/**
 * How long a claim is held at most. Longer than any commit takes: a store call that never ends must not keep its key for
 * ever, and what it comes to later is refused by the store where another request has used the key.
 */
const MAX_CLAIM_MS = 120_000;

/** A claimed key: the stored answer, or the data that the request needs to run. */
interface Claim {
  stored: Answer<unknown> | null;
  idempotent: IdempotencyRecord;
  /** Stores the answer unless it was stored with its effect. */
  storeAnswer(answer: Answer<unknown>): Promise<void>;
}

interface ClaimRequest {
  caller: Caller;
  operation: Operation;
  request: KeyedRequest;
}

interface SealedAnswer {
  /** Who moved to another tenant sees nothing of the old one. */
  tenantId: Uuid | null;
  body: Json;
  plan?: Json;
}

interface RunningRequest {
  bodyHash: string;
  /** Milliseconds on the process's monotonic clock. */
  since: number;
}

export type Replayed = Answer<unknown> & { replayed?: true };

/**
 * Requests with an `Idempotency-Key`, one for the process. At most one of a key runs at a time; a claim is held until the
 * outcome of its commit is known, however early its caller was answered. The store refuses what slips through.
 */
export class IdempotencyKeys {
  readonly #services: Services;
  readonly #now: () => number;
  /** In the order of `since`. */
  readonly #running = new Map<string, RunningRequest>();

  constructor(services: Services, now: () => number = () => performance.now()) {
    this.#services = services;
    this.#now = now;
  }

  /** Keys that are claimed now. */
  get size(): number {
    return this.#running.size;
  }

  sizes(): CollectionSizes {
    return { idempotency_keys_running: this.#running.size };
  }

  /**
   * Returns the stored answer, or that of `run`. Refuses another body (422) and a second request while the first runs (409).
   * A row left `running` by a process that was killed is taken over, with what it had planned.
   */
  async run(
    claiming: ClaimRequest,
    run: (idempotent: IdempotencyRecord) => Promise<Outcome<Answer<unknown>>>,
  ): Promise<Outcome<Replayed>> {
    const { principal } = claiming.caller;
    const { method, path, key } = claiming.request;
    const place = `idempotency|${principal.id}|${method}|${path}|${key}`;
    const bodyHash = payloadHash(claiming.request.body);
    this.#releaseOverdue();
    const first = this.#running.get(place);
    if (first !== undefined) return first.bodyHash === bodyHash ? stillRunning() : bodyMismatch();
    const mine = { bodyHash, since: this.#now() };
    this.#running.set(place, mine);
    const release = () => {
      if (this.#running.get(place) === mine) this.#running.delete(place);
    };

    let ended: Promise<void> | null = null;
    try {
      return await this.#once(claiming, place, bodyHash, run);
    } catch (fault) {
      if (fault instanceof CommitUnknown) ended = fault.ended;
      throw fault;
    } finally {
      if (ended === null) release();
      else void ended.then(release);
    }
  }

  async #once(
    claiming: ClaimRequest,
    place: string,
    bodyHash: string,
    run: (idempotent: IdempotencyRecord) => Promise<Outcome<Answer<unknown>>>,
  ): Promise<Outcome<Replayed>> {
    const claim = await this.#claim(claiming, place, bodyHash);
    if (!claim.ok) return claim;
    const { stored, idempotent, storeAnswer } = claim.value;
    if (stored !== null) return done({ ...stored, replayed: true });
    try {
      const outcome = await run(idempotent);
      if (outcome.ok) await storeAnswer(outcome.value);
      // An earlier attempt whose outcome was unknown may be what stands in the way: its answer is the one to give.
      return outcome.ok ? outcome : await this.#storedOr(outcome, claiming, place, bodyHash);
    } catch (fault) {
      if (!(fault instanceof IdempotencyConflict)) throw fault;
      return await this.#storedOr(stillRunning(), claiming, place, bodyHash);
    }
  }

  async #storedOr(
    refused: { ok: false; refusal: Refusal },
    claiming: ClaimRequest,
    place: string,
    bodyHash: string,
  ): Promise<Outcome<Replayed>> {
    const claim = await this.#claim(claiming, place, bodyHash);
    if (!claim.ok) return claim;
    return claim.value.stored === null ? refused : done({ ...claim.value.stored, replayed: true });
  }

  async #claim(
    { caller, operation, request: { method, path, key } }: ClaimRequest,
    place: string,
    bodyHash: string,
  ): Promise<Outcome<Claim>> {
    const { clock, store, seal, open } = this.#services;
    const id = { principal: caller.principal.id, method, path, key };
    const now = clock.now();
    const row = await store.idempotency.find(id);
    const live = row !== null && row.expiresAt > now ? row : null;
    if (live !== null && live.bodyHash !== bodyHash) return bodyMismatch();
    const sealed = live === null ? null : (JSON.parse(open(live.answer, place)) as SealedAnswer);
    const mine = sealed !== null && (operation.role === 'none' || sealed.tenantId === caller.tenantId) ? sealed : null;

    let replaces = row?.answer;
    const makeRow = (state: IdempotencyRow['state'], status: number, content: Omit<SealedAnswer, 'tenantId'>) => ({
      ...id,
      bodyHash,
      state,
      status,
      answer: seal(JSON.stringify({ tenantId: caller.tenantId, ...content }), place),
      subject: null,
      expiresAt: now + LIFE_MS,
      ...(replaces !== undefined && { replaces }),
    });
    const idempotent: IdempotencyRecord = {
      reserved: live?.state === 'running' ? (mine?.plan ?? null) : null,
      rowCreated: false,
      toRow(answer, subject) {
        idempotent.rowCreated = true;
        const content = { body: answer.body as JsonObject };
        return { ...makeRow('done', answer.status ?? 0, content), subject: subject ?? null };
      },
      reserve: async (plan) => {
        const begun = makeRow('running', 0, { body: null, plan });
        await store.idempotency.put(begun);
        replaces = begun.answer;
      },
    };
    return done({
      stored: live?.state === 'done' && mine !== null ? storedAnswer(live, mine) : null,
      idempotent,
      storeAnswer: async (answer) => {
        if (!idempotent.rowCreated) await store.idempotency.put(idempotent.toRow(answer));
      },
    });
  }

  #releaseOverdue(): void {
    for (const [place, { since }] of this.#running) {
      if (this.#now() - since < MAX_CLAIM_MS) return;
      this.#running.delete(place);
    }
  }
}

/** Status 0 stands for the operation's usual one. */
const storedAnswer = (row: IdempotencyRow, { body }: SealedAnswer): Answer<unknown> =>
  row.status === 0 ? { body } : { body, status: row.status };

const stillRunning = () =>
  refuse('CONFLICT', 'A request with this Idempotency-Key is still running.', { retryAfterS: RETRY_AFTER_S });

const bodyMismatch = () => refuse('IDEMPOTENCY_MISMATCH', 'This Idempotency-Key was used with another body.');
