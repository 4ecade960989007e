import { payloadHash } from '../domain/canonical.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { Json, JsonObject, Uuid } from '../domain/values.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import type { Answer, Caller, Idempotent, Operation, Services } from './operation.ts';

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

/** Keys whose first request runs in this process, with the hash of its body. */
export type RunningKeys = Map<string, string>;

/** A claim on a key: the answer that was stored, or the right to run. `release` it whatever happens. */
export interface Claim {
  stored: Answer<unknown> | null;
  idempotent: Idempotent;
  /** Keeps the answer unless it was kept with its effect. */
  keep(answer: Answer<unknown>): Promise<void>;
  release(): void;
}

interface Sealed {
  /** Who moved to another tenant sees nothing of the old one. */
  tenantId: Uuid | null;
  body: Json;
  plan?: Json;
}

/**
 * Looks the key up and takes it for this request. Refuses another body (422) and a second request while the first
 * runs (409). A row left `running` by a process that was killed is taken over, with what it had planned.
 */
export async function claim(
  services: Services,
  running: RunningKeys,
  { caller, operation, request }: { caller: Caller; operation: Operation; request: KeyedRequest },
): Promise<Outcome<Claim>> {
  const { method, path, key } = request;
  const id = { principal: caller.principal.id, method, path, key };
  const place = `idempotency|${id.principal}|${method}|${path}|${key}`;
  const bodyHash = payloadHash(request.body);
  const first = running.get(place);
  if (first !== undefined) return first === bodyHash ? stillRunning() : anotherBody();
  running.set(place, bodyHash);
  const release = () => void running.delete(place);

  try {
    const now = services.clock.now();
    const row = await services.store.idempotency.find(id);
    const live = row !== null && row.expiresAt > now ? row : null;
    if (live !== null && live.bodyHash !== bodyHash) {
      release();
      return anotherBody();
    }
    const sealed = live === null ? null : (JSON.parse(services.open(live.answer, place)) as Sealed);
    const mine = sealed !== null && (operation.role === 'none' || sealed.tenantId === caller.tenantId) ? sealed : null;

    const makeRow = (state: IdempotencyRow['state'], status: number, content: Omit<Sealed, 'tenantId'>) => ({
      ...id,
      bodyHash,
      state,
      status,
      answer: services.seal(JSON.stringify({ tenantId: caller.tenantId, ...content }), place),
      subject: null,
      expiresAt: now + LIFE_MS,
    });
    const idempotent: Idempotent = {
      resumed: live?.state === 'running' ? (mine?.plan ?? null) : null,
      kept: false,
      row(answer, subject) {
        idempotent.kept = true;
        const content = { body: answer.body as JsonObject };
        return { ...makeRow('done', answer.status ?? 0, content), subject: subject ?? null };
      },
      begin: (plan) => services.store.idempotency.put(makeRow('running', 0, { body: null, plan })),
    };
    return done({
      stored: live?.state === 'done' && mine !== null ? storedAnswer(live, mine) : null,
      idempotent,
      keep: async (answer) => {
        if (!idempotent.kept) await services.store.idempotency.put(idempotent.row(answer));
      },
      release,
    });
  } catch (fault) {
    release();
    throw fault;
  }
}

/** Status 0 stands for the operation's usual one. */
const storedAnswer = (row: IdempotencyRow, { body }: Sealed): Answer<unknown> =>
  row.status === 0 ? { body } : { body, status: row.status };

const stillRunning = () =>
  refuse('CONFLICT', 'A request with this Idempotency-Key is still running.', { retryAfterS: RETRY_AFTER_S });

const anotherBody = () => refuse('IDEMPOTENCY_MISMATCH', 'This Idempotency-Key was used with another body.');
