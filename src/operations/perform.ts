import { z } from 'zod';
import { NotOwner } from '../actors/contract.ts';
import { errorText, fieldErrors } from '../domain/field-errors.ts';
import { checkJson } from '../domain/json/strict.ts';
import { done, type FieldError, type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { StoreLiveness } from '../services/store-liveness.ts';
import { auditDone, auditOperatorRead, auditRefusal, auditReplay, isAudited } from './audit-recording.ts';
import { callerRefusal, tenantRefusal } from './caller-authorization.ts';
import { refusalOf } from './faults.ts';
import { flagRefusal } from './flag-refusal.ts';
import { GrantedServices } from './granted-services.ts';
import { IdempotencyKeys, type KeyedRequest } from './idempotency.ts';
import { type Noun, notFound } from './inputs.ts';
import { withGroupDevices } from './key-reach.ts';
import type { Answer, Call, Caller, ChargeCost, IdempotencyRecord, Operation, Services } from './operation.ts';

export interface OperationRequest {
  /** Not validated yet: path, query and body, or a tool's arguments. */
  input: unknown;
  caller: Caller;
  /** Null if the protocol has no `Idempotency-Key` or none was sent. */
  keyed: KeyedRequest | null;
  /** A refusal by the edge: the operation does not run, but the attempt is audited. */
  edgeRefusal?: Refusal;
  upload?: AsyncIterable<Uint8Array> | null;
  /** Charges the rate limit of the request. */
  charge?: ChargeCost;
}

export interface Performed extends Answer<unknown> {
  /** The answer is the stored answer of an earlier request. */
  replayed?: true;
}

/** Runs an operation for an edge: checks, idempotency, audit. Returns a refusal instead of throwing. */
export type Perform = (operation: Operation, request: OperationRequest) => Promise<Outcome<Performed>>;

interface PerformParts {
  services: Pick<Services, 'actors' | 'audit' | 'flags' | 'store'>;
  granted: GrantedServices;
  keys: IdempotencyKeys;
}

/** One instance for the process: it holds the claimed idempotency keys. */
export function makePerform(
  services: Services,
  liveness: StoreLiveness,
  keys = new IdempotencyKeys(services),
): Perform {
  const parts = { services, granted: new GrantedServices(services), keys };
  return async (operation, unnamed) => {
    const request = { ...unnamed, caller: withOperationName(operation, unnamed.caller) };
    try {
      const outcome = await liveness.guard(run(parts, operation, request));
      if (!outcome.ok) auditRefusal(services, operation, request, outcome.refusal);
      return outcome;
    } catch (thrown) {
      const about = { operation: operation.name, request_id: request.caller.requestId };
      return { ok: false, refusal: refusalOf(thrown, services.log, about) };
    }
  };
}

/** Adds the operation's name to the principal, for the journals of the actors that it changes. */
const withOperationName = ({ name, changes }: Operation, caller: Caller): Caller =>
  changes ? { ...caller, principal: { ...caller.principal, operation: name } } : caller;

async function run(
  parts: PerformParts,
  operation: Operation,
  { input: given, caller, keyed, edgeRefusal, upload = null, charge }: OperationRequest,
): Promise<Outcome<Performed>> {
  if (edgeRefusal !== undefined) return { ok: false, refusal: edgeRefusal };
  const { services } = parts;
  const denied = callerRefusal(operation, caller);
  if (denied !== null) return denied;
  const entered = enterTenant(services, operation, caller, upload);
  try {
    const request = { input: given, caller, keyed, upload: entered.upload };
    return await runEntered(parts, operation, charge === undefined ? request : { ...request, charge });
  } finally {
    entered.leave();
  }
}

async function runEntered(
  parts: PerformParts,
  operation: Operation,
  { input: given, caller: presented, keyed, upload = null, charge }: OperationRequest,
): Promise<Outcome<Performed>> {
  const { services, granted, keys } = parts;
  const caller = presented.restriction === undefined ? presented : await withGroupDevices(services.store, presented);
  const refused = await tenantRefusal(services, operation, caller);
  if (refused !== null) return refused;
  const stopped = flagRefusal(services, operation, given);
  if (stopped !== null) return stopped;
  const read = parseInput(operation, given);
  if (!read.ok) return read;
  const input = read.value;
  if (operation.policy !== undefined) {
    const policy = await operation.policy(granted.for(operation), { input, caller });
    if (!policy.ok) return policy;
  }
  if (keyed === null || !operation.changes || caller.user === null) {
    const call = { input, caller, idempotent: null, upload };
    return runAudited(parts, operation, charge === undefined ? call : { ...call, charge });
  }
  const running = (idempotent: IdempotencyRecord) => runAudited(parts, operation, { input, caller, idempotent });
  const outcome = await keys.run({ caller, operation, request: keyed }, running);
  if (outcome.ok && outcome.value.replayed) {
    const { auditId, secretOf } = outcome.value;
    // The first request may have ended between its effect and its row, or not have known the outcome of its commit.
    if (auditId !== undefined)
      await auditEffect(parts, operation, { input, caller, idempotent: null }, outcome.value, auditId);
    if (secretOf !== undefined) await auditReplay(services, caller, secretOf);
  }
  return outcome;
}

async function runAudited(
  parts: PerformParts,
  operation: Operation,
  call: Call<unknown>,
): Promise<Outcome<Answer<unknown>>> {
  const { services, granted } = parts;
  const outcome = await operation.run(granted.for(operation), call);
  if (outcome.ok) {
    await auditEffect(parts, operation, call, outcome.value, call.idempotent?.auditId);
    await auditOperatorRead(services, operation, call);
  }
  return outcome;
}

/** Writes the audit row with this id, unless there is one. */
async function auditEffect(
  { services }: Pick<PerformParts, 'services'>,
  operation: Operation,
  call: Call<unknown>,
  answer: Answer<unknown>,
  auditId: Uuid | undefined,
): Promise<void> {
  // A 409 with a body is a dry run: the change request is audited instead.
  if (answer.status !== 409 && isAudited(operation)) await auditDone(services, operation, call, answer, auditId);
}

interface Entered {
  leave(): void;
  /** Ends with `NotOwner` if the tenant moves to another node meanwhile. */
  upload: AsyncIterable<Uint8Array> | null;
}

/**
 * Begins a change in its tenant, which stays on this node until the change has ended. Throws `NotOwner` if another node
 * runs the tenant: only there, changes of plain records are ordered. A change of an operator in any tenant changes
 * actors, which check it themselves.
 */
function enterTenant(
  { actors }: Pick<Services, 'actors'>,
  operation: Operation,
  caller: Caller,
  upload: AsyncIterable<Uint8Array> | null,
): Entered {
  const { changes, platformOnly, acrossTenants } = operation;
  if (!changes || platformOnly || acrossTenants || caller.tenantId === null) return { leave: noop, upload };
  // A client may take minutes to send the body.
  const interruptible = upload && new InterruptibleUpload(upload);
  const leave = actors.enter(
    caller.tenantId,
    interruptible ? () => interruptible.interrupt(new NotOwner()) : undefined,
  );
  if (leave === null) throw new NotOwner();
  return { leave, upload: interruptible };
}

const noop = (): void => {};

/** The chunks of an upload until it is interrupted, also while the next one does not arrive. */
class InterruptibleUpload implements AsyncIterable<Uint8Array> {
  readonly #chunks: AsyncIterable<Uint8Array>;
  #error: Error | null = null;
  /** Ends the wait for a chunk. A race with one promise would keep every chunk until that promise is settled. */
  #endWait: (error: Error) => void = noop;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks;
  }

  interrupt(error: Error): void {
    this.#error = error;
    this.#endWait(error);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const iterator = this.#chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await this.#next(iterator);
        if (next.done) return;
        yield next.value;
      }
    } finally {
      // Not awaited: a source that waits for its next chunk returns only after that.
      iterator.return?.().then(noop, noop);
    }
  }

  #next(iterator: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    return new Promise((resolve, reject) => {
      if (this.#error !== null) return reject(this.#error);
      this.#endWait = reject;
      iterator.next().then(resolve, reject);
    });
  }
}

type Refused = ReturnType<typeof refuse>;

function parseInput(operation: Operation, given: unknown): Outcome<unknown> {
  const parsed = operation.input.safeParse(given, { error: errorText });
  if (parsed.success) {
    // Contract §2: strings that a JSON store cannot hold are refused on every protocol.
    const json = checkJson(given);
    return json.ok ? done(parsed.data) : invalid([{ path: '', message: json.reason }]);
  }
  const { issues } = parsed.error;
  const noun = missingNoun(operation, given, issues);
  return noun === null ? invalid(fieldErrors(issues)) : notFound(noun);
}

/** Noun of the first id if all issues are ids that are not UUIDs, else null: such an id is answered as NOT_FOUND. */
function missingNoun(operation: Operation, given: unknown, issues: readonly z.core.$ZodIssue[]): Noun | null {
  const nouns = issues.map(({ path }) => {
    const [member] = path;
    if (path.length !== 1 || typeof member !== 'string') return null;
    if (typeof (given as Record<string, unknown>)[member] !== 'string') return null;
    return nounOf(operation, member);
  });
  return nouns.every((noun) => noun !== null) ? (nouns[0] ?? null) : null;
}

function nounOf(operation: Operation, member: string): Noun | null {
  const { input } = operation;
  if (!(input instanceof z.ZodObject)) return null;
  const field = input.shape[member];
  const schema = field instanceof z.ZodOptional || field instanceof z.ZodNullable ? field.unwrap() : field;
  return schema instanceof z.ZodType ? ((schema.meta()?.noun as Noun | undefined) ?? null) : null;
}

const invalid = (errors: FieldError[]): Refused =>
  refuse(
    'VALIDATION_FAILED',
    errors.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; '),
    {
      errors,
    },
  );
