import { z } from 'zod';
import { EventFailed } from '../../actors/contract.ts';
import { type ChangeRequest, changeStatusOf, isSameRequester } from '../../domain/change-request.ts';
import { mayConfirm } from '../../domain/gateway.ts';
import { type ConfirmationRules, isPerson, rulesSince } from '../../domain/policy.ts';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { jsonObject, reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject, Uuid } from '../../domain/values.ts';
import { usesAgentKey } from '../agent-keys.ts';
import { auditDone, isAudited } from '../audit-recording.ts';
import { callerRefusal } from '../caller-authorization.ts';
import { type CommittedTenant, readTenant } from '../commands/gateway-facts.ts';
import { flagRefusal } from '../flag-refusal.ts';
import { cursorAfter, cursorsIn, idOf, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import {
  type Answer,
  type Call,
  type Caller,
  type IdempotencyRecord,
  operation,
  type Services,
  tenantOf,
} from '../operation.ts';
import { keyNames } from '../requested-with.ts';
import { requesterRefusal } from '../requester-authority.ts';
import {
  changeRequestEntry,
  changeRequestEntryOf,
  changeRequestRecord,
  changeRequestRecordOf,
} from './change-request-view.ts';
import {
  type ConfirmableOperation,
  confirmableNeeds,
  confirmableOperations,
  mayReadChange,
} from './confirmable-operations.ts';
import { changeDigest, changeDryRun, confirmationResponse, hashChangeToken, stillWaits } from './confirmed-change.ts';

// The change requests of a tenant: lists, confirms and refuses them.

export const listChangeRequests = operation({
  name: 'listChangeRequests',
  summary: 'List the changes for which a confirmation was required, newest first',
  input: z.strictObject({
    ...paging,
    waiting: z.boolean().optional().meta({ description: 'Only those that wait for a confirmation' }),
  }),
  output: z.object({ changes: z.array(changeRequestEntry), count: listCount, next_cursor: nextCursor }),
  role: 'admin',
  scope: 'read:commands',
  // Change requests are about manifests, and show them.
  alsoScope: 'read:manifests',
  changes: false,
  needs: ['actors', 'clock', 'store'],
  async run(services, { input: { limit, cursor, waiting = false }, caller }) {
    const { store, clock } = services;
    const listing = { route: 'change-requests', filters: waiting ? { waiting: 'true' } : {} };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const now = clock.now();
    const filter = waiting ? { waitingAt: now } : {};
    const page = await store.changeRequests.list(tenantOf(caller), filter, limit, start.value);
    const tenant = await readTenant(services, caller);
    const names = await keyNames(
      services,
      page.items.map(({ requestedBy }) => requestedBy),
    );
    const changes = page.items
      .filter((one) => mayReadChange(one, caller.scopes))
      .map((one) => changeRequestEntryOf(withDeadline(tenant, one), now, names))
      .filter(({ status }) => !waiting || status === 'awaiting_confirmation');
    return done({
      body: { changes, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

const ofChange = { change_id: idOf('change') };

export const getChangeRequest = operation({
  name: 'getChangeRequest',
  summary: 'Show a change for which a confirmation was required, with its effect',
  input: z.strictObject(ofChange),
  output: z.object({ change: changeRequestRecord }),
  role: 'admin',
  scope: 'read:commands',
  // Change requests are about manifests, and show them.
  alsoScope: 'read:manifests',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'store'],
  async run(services, { input, caller }) {
    const found = await findChange(services, caller, input.change_id);
    if (!found.ok) return found;
    if (!mayReadChange(found.value, caller.scopes)) return notFound('change');
    const request = withDeadline(await readTenant(services, caller), found.value);
    const names = await keyNames(services, [request.requestedBy]);
    return done({ body: { change: changeRequestRecordOf(request, services.clock.now(), names) } });
  },
});

/** The caller's change request. The same refusal for a missing one and for another tenant's. */
async function findChange(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  id: Uuid,
): Promise<Outcome<ChangeRequest>> {
  const request = await store.changeRequests.find(id);
  return request?.tenantId === tenantOf(caller) ? done(request) : notFound('change');
}

const appliedBody = z
  .object({
    status: z.literal('applied'),
    change_id: uuid,
    result: jsonObject.meta({ description: 'Answer of the requested operation' }),
  })
  .meta({ id: 'AppliedChange' });
type AppliedBody = z.infer<typeof appliedBody>;

const confirming = {
  output: z.union([appliedBody, changeDryRun]),
  responses: {
    200: { when: 'The change is applied', body: appliedBody },
    409: {
      ...confirmationResponse,
      when: 'The state that was previewed has changed: this is a new change request, with a new preview',
    },
  },
  role: 'admin',
  scope: 'execute:commands',
  changes: true,
  // The flags are checked for the requested operation: `confirm`.
  inMaintenance: true,
  auditSubject: ({ input }: Call<{ change_id: Uuid }>) => `change:${input.change_id}`,
  refuses: [
    ...(['NOT_FOUND', 'CONFIRMATION_FAILED', 'FORBIDDEN', 'CONFLICT', 'DEVICE_REVOKED', 'ILLEGAL_TRANSITION'] as const),
    'MAINTENANCE',
  ],
} as const;

export const confirmChange = operation({
  ...confirming,
  name: 'confirmChange',
  summary: 'Confirm a change with its dry-run token; requires what the requested operation requires, and the policy',
  input: z.strictObject({ ...ofChange, dry_run_token: z.string() }),
  example: { input: { dry_run_token: '6f1c2f7e-4b0a-4d0e-9a53-2f8f0c1d7b11' } },
  needs: confirmableNeeds,
  policy: checkDecisionPolicy,
  run: (services, call) => confirm(services, call, hashChangeToken(call.input.dry_run_token)),
});

export const approveChange = operation({
  ...confirming,
  name: 'approveChange',
  summary: 'Confirm a change without its token; requires what the requested operation requires, and the policy',
  input: z.strictObject(ofChange),
  needs: confirmableNeeds,
  policy: checkDecisionPolicy,
  run: (services, call) => confirm(services, call, null),
});

export const refuseChange = operation({
  name: 'refuseChange',
  summary: 'Refuse a change that you may confirm, or withdraw one that you requested',
  input: z.strictObject({ ...ofChange, reason: reason.optional() }),
  output: z.object({ status: z.literal('refused'), change_id: uuid }),
  role: 'admin',
  scope: 'execute:commands',
  changes: true,
  inMaintenance: true,
  auditSubject: ({ input }) => `change:${input.change_id}`,
  refuses: ['NOT_FOUND', 'CONFIRMATION_FAILED', 'FORBIDDEN', 'CONFLICT', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'The gate must stay critical.' } },
  needs: ['actors', 'agentTokens', 'clock', 'locks', 'store'],
  run(services, { input, caller, idempotent }) {
    return withChangeLock(services, input.change_id, async () => {
      const found = await findChange(services, caller, input.change_id);
      if (!found.ok) return found;
      const allowed = operationOf(found.value, caller);
      if (!allowed.ok) return allowed;
      const unentitled = await refusingRefusal(services, caller, found.value);
      if (unentitled !== null) return unentitled;
      const ended = notWaiting(services, await readTenant(services, caller), found.value);
      if (ended !== null) return ended;
      const answer = { body: { status: 'refused' as const, change_id: input.change_id } };
      const end = { status: 'refused', reason: input.reason ?? null, ...decision(services, caller) } as const;
      const refused = await services.store.changeRequests.end(input.change_id, end, idempotent?.toRow(answer));
      return refused === null ? refuse('ILLEGAL_TRANSITION', 'The change no longer waits.') : done(answer);
    });
  },
});

/** Requesters withdraw what they requested, and a person also what their keys and agents did. Others must be allowed to confirm it. */
async function refusingRefusal(
  services: Pick<Services, 'actors' | 'agentTokens'>,
  caller: Caller,
  request: ChangeRequest,
): Promise<{ ok: false; refusal: Refusal } | null> {
  const { requestedBy } = request;
  const { principal } = caller;
  const isOwn = isSameRequester(requestedBy, principal) || (isPerson(principal) && principal.id === requestedBy.id);
  return isOwn ? null : confirmationRefusal(services, caller, request, null);
}

/** The operation that carries out the change, if this caller may run it. */
function operationOf(request: ChangeRequest, caller: Caller) {
  // Another version may have requested an operation that this one does not know.
  const found = (confirmableOperations as Readonly<Record<string, ConfirmableOperation>>)[request.operation];
  if (found === undefined) return refuse('CONFLICT', 'This version of the service cannot decide about the change.');
  return callerRefusal(found, caller) ?? done(found);
}

const decision = ({ clock }: Pick<Services, 'clock'>, { principal }: Caller) => {
  const { requestId: _, operation: __, ...decidedBy } = principal;
  return { decidedBy, decidedAt: clock.now() };
};

/** One decision at a time: a second one sees the outcome of the first. */
const withChangeLock = <T>({ locks }: Pick<Services, 'locks'>, id: Uuid, work: () => Promise<T>): Promise<T> =>
  locks.exclusive(`change ${id}`, work);

function notWaiting(
  { clock }: Pick<Services, 'clock'>,
  tenant: CommittedTenant,
  request: ChangeRequest,
): { ok: false; refusal: Refusal } | null {
  const status = changeStatusOf(withDeadline(tenant, request), clock.now());
  if (status === 'awaiting_confirmation') return null;
  return refuse('ILLEGAL_TRANSITION', `The change is ${status}, not awaiting confirmation.`);
}

/** The rules for a change request: the policy, and stricter ones since it began to wait. */
const changeRules = ({ snapshot }: CommittedTenant, { createdAt }: ChangeRequest): ConfirmationRules => {
  const { policy, earlierRules = [] } = snapshot.context.fixed;
  return rulesSince(policy, earlierRules, createdAt);
};

/** With the deadline by these rules: a shorter time of the policy applies to what waits at once. */
const withDeadline = (tenant: CommittedTenant, request: ChangeRequest): ChangeRequest => ({
  ...request,
  expiresAt: Math.min(request.expiresAt, request.createdAt + changeRules(tenant, request).confirm_ttl_s * 1_000),
});

type Confirmation = Call<{ change_id: Uuid }>;
type ConfirmOutcome = Outcome<Answer<AppliedBody | z.infer<typeof changeDryRun>>>;
type ConfirmServices = Pick<Services, (typeof confirmableNeeds)[number]>;

/** Keeps stored answers from callers who may not confirm the change. */
async function checkDecisionPolicy(
  services: Pick<Services, 'actors' | 'agentTokens' | 'store'>,
  { input, caller }: Pick<Confirmation, 'input' | 'caller'>,
): Promise<Outcome<null>> {
  const found = await findChange(services, caller, input.change_id);
  if (!found.ok) return done(null);
  const allowed = operationOf(found.value, caller);
  if (!allowed.ok) return allowed;
  const confirmed = await confirmationRefusal(services, caller, found.value, null);
  return confirmed ?? done(null);
}

/** Checks the tenant's policy and, unless it is null, the token. */
async function confirmationRefusal(
  services: Pick<Services, 'actors' | 'agentTokens'>,
  caller: Caller,
  request: ChangeRequest,
  tokenHash: string | null,
): Promise<{ ok: false; refusal: Refusal } | null> {
  const claim = tokenHash === null ? { inbox: true as const } : { holdsToken: tokenHash === request.tokenHash };
  const agentKey = await usesAgentKey(services, [request.requestedBy, caller.principal]);
  // Read last, so that a policy changed during the lookup applies.
  const rules = changeRules(await readTenant(services, caller), request);
  const allowed = mayConfirm(rules, request.requestedBy, caller.principal, { ...claim, agentKey });
  return allowed.ok ? null : allowed;
}

function confirm(services: ConfirmServices, call: Confirmation, tokenHash: string | null): Promise<ConfirmOutcome> {
  const { input, caller } = call;
  return withChangeLock(services, input.change_id, async () => {
    const found = await findChange(services, caller, input.change_id);
    if (!found.ok) return found;
    const request = found.value;
    const allowed = operationOf(request, caller);
    if (!allowed.ok) return allowed;
    const stopped = flagRefusal(services, allowed.value);
    if (stopped !== null) return stopped;
    const unconfirmed = await confirmationRefusal(services, caller, request, tokenHash);
    if (unconfirmed !== null) return unconfirmed;
    const ended = notWaiting(services, await readTenant(services, caller), request);
    if (ended !== null) return ended;
    const { tenantId, requestedBy } = request;
    const unauthorized = await requesterRefusal(services, tenantId, requestedBy, allowed.value.role ?? 'none');
    if (unauthorized !== null) return unauthorized;
    return apply(services, call, request, allowed.value);
  });
}

/**
 * Runs the operation of a confirmed change. The request ends as outdated only if the operation says that the change can never
 * be applied: any other refusal leaves it to be confirmed again.
 */
async function apply(
  services: ConfirmServices,
  { caller, idempotent }: Confirmation,
  request: ChangeRequest,
  operation: ConfirmableOperation,
): Promise<ConfirmOutcome> {
  const { id, digest, requestedBy, base, preview } = request;
  if (changeDigest(request) !== digest) throw new Error(`change request ${id} does not match its digest`);
  const parsed = operation.input.safeParse(request.input);
  // Another version has another schema.
  if (!parsed.success) return stillWaits();
  const input = parsed.data;
  const wrap = (body: unknown): AppliedBody => ({ status: 'applied', change_id: id, result: body as JsonObject });
  const approval = { id, digest, requestedBy, base, preview };
  const outcome = await operation
    .run(services, { input, caller, approval, idempotent: idempotent && new WrappedAnswer(idempotent, wrap) })
    .catch((thrown: unknown) => decidedMeanwhile(services, caller, id, thrown));
  // The request was replaced by a new one, with a new preview.
  if (outcome.ok && outcome.value.status === 409)
    return done({ status: 409, body: outcome.value.body as z.infer<typeof changeDryRun> });
  if (outcome.ok) {
    // The commit of an actor has ended the request already, together with what it changed.
    await services.store.changeRequests.end(id, { status: 'applied', reason: null, ...decision(services, caller) });
    if (isAudited(operation)) await auditDone(services, operation, { input, caller, idempotent: null }, outcome.value);
    return done({ body: wrap(outcome.value.body) });
  }
  if (outcome.refusal.outdated)
    await services.store.changeRequests.end(id, { status: 'outdated', reason: null, ...decision(services, caller) });
  return outcome;
}

/** The refusal if the commit failed because another process has decided about the change; throws any other error. */
async function decidedMeanwhile(
  services: Pick<Services, 'actors' | 'clock' | 'store'>,
  caller: Caller,
  id: Uuid,
  thrown: unknown,
) {
  if (!(thrown instanceof EventFailed)) throw thrown;
  const request = await services.store.changeRequests.find(id);
  const ended = request && notWaiting(services, await readTenant(services, caller), request);
  if (ended === null) throw thrown;
  return ended;
}

/** Stores the answer of a confirmation with the effect of the operation that it runs. */
class WrappedAnswer implements IdempotencyRecord {
  readonly #record: IdempotencyRecord;
  readonly #wrap: (body: unknown) => AppliedBody;

  constructor(record: IdempotencyRecord, wrap: (body: unknown) => AppliedBody) {
    this.#record = record;
    this.#wrap = wrap;
  }

  toRow(answer: Answer<unknown>, subject?: string) {
    // A new change request, not the answer of the applied change.
    if (answer.status === 409) return this.#record.toRow(answer, subject);
    return this.#record.toRow({ body: this.#wrap(answer.body) }, subject);
  }

  reserve(plan: Json): Promise<void> {
    return this.#record.reserve(plan);
  }

  get reserved(): Json {
    return this.#record.reserved;
  }

  get auditId(): Uuid {
    return this.#record.auditId;
  }

  get rowCreated(): boolean {
    return this.#record.rowCreated;
  }
}
