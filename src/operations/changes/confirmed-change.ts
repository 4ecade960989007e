import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import {
  type AppliedChange,
  type ChangePreview,
  type ChangeRequest,
  type ConfirmedOperation,
  changeKindOf,
  changeKinds,
  changeStatusOf,
  type WaitingLimits,
  waitingLimits,
} from '../../domain/change-request.ts';
import { mayConfirm } from '../../domain/gateway.ts';
import { iso } from '../../domain/iso-time.ts';
import { jsonEqual } from '../../domain/json/value.ts';
import { expiredUntil, isPerson } from '../../domain/policy.ts';
import { done, type Outcome, outdated, type Refusal, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import type { ChangeRequestInsertion } from '../../store/contract/change-requests.ts';
import { usesAgentKey } from '../agent-keys.ts';
import { originOf } from '../audit-recording.ts';
import { readTenant } from '../commands/gateway-facts.ts';
import { previewedDeviceSchema } from '../devices/device-view.ts';
import { isoTime } from '../inputs.ts';
import { type Answer, type Call, type Caller, type Services, tenantOf } from '../operation.ts';

/*
 * Changes that make something weaker, and critical changes that the policy does not let the requester confirm, wait for a
 * confirmation under the tenant's safety policy, as critical commands do (decisions 47 and 52). An operation computes
 * the effect of its change and calls `applyOrRequest`; it is listed in confirmable-operations.ts, so that it can be run again
 * when the change is confirmed.
 */

export const changeEffect = z
  .object({
    weaker: z.array(z.string()).meta({
      description: 'One sentence for each rule that gets weaker, or for each effect of a critical change',
    }),
    changes: z.record(z.string(), z.object({ from: z.json(), to: z.json() })),
    device: previewedDeviceSchema.optional().meta({
      description: 'The device of a change of keys or of a revocation: a confirmation covers its name and place too',
    }),
  })
  .meta({ id: 'ChangeEffect' });

/** The same shape as for a command that needs a confirmation; HTTP's 409 adds `code` and `request_id`. */
export const changeDryRun = z.object({
  status: z.literal('dry_run_required'),
  reason: z.string(),
  dry_run_token: uuid,
  expires_at: isoTime,
  change_id: uuid,
  preview: changeEffect,
});
type ChangeDryRun = z.infer<typeof changeDryRun>;

/** Entry of `Operation.responses` for the status 409. */
export const confirmationResponse = {
  when: 'The change must be confirmed with this token, or from the list of change requests',
  body: changeDryRun
    .extend({ code: z.literal('DRY_RUN_REQUIRED'), request_id: uuid })
    .meta({ id: 'ChangeDryRunRequired' }),
};

export interface ProposedChange {
  /** Name of the calling operation. */
  operation: ConfirmedOperation;
  /** As in the audit: `device:<id>`. */
  subject: string;
  /** Identifies the state that `preview` was made from; it must be compared again where the change is applied. */
  base: string;
  /** Null if the change needs no confirmation. */
  preview: ChangePreview | null;
  /**
   * After a change of the state, only a requester can request it again: the input names that state, or is about content that
   * others can change, so that a new preview would show under the requester's name what they have not seen.
   */
  neverRenewed?: true;
}

type ChangeServices = Pick<Services, 'actors' | 'agentTokens' | 'audit' | 'clock' | 'locks' | 'newId' | 'store'>;

/** The refusal of a confirmation after which the request still waits. */
export const stillWaits = () =>
  refuse(
    'CONFLICT',
    'This node or version cannot apply the change now. The request still waits: confirm it again later, or refuse it.',
  );

/**
 * Applies a change that needs no confirmation or was confirmed, and otherwise stores it as a change request and answers 409
 * with its dry-run token. An operation that changes plain records calls it under its own lock for the subject. `apply`
 * receives the change request; the event of an actor must emit `change.apply`. If the state has changed since the preview,
 * the change is requested again for its requester, with a new preview, or else refused as `outdated`: then the request ends.
 * After any other refusal it still waits.
 */
export async function applyOrRequest<Output>(
  services: ChangeServices,
  call: Call<unknown>,
  change: ProposedChange,
  apply: (applied: AppliedChange | undefined) => Promise<Outcome<Answer<Output>>>,
): Promise<Outcome<Answer<Output | ChangeDryRun>>> {
  const { approval } = call;
  if (approval !== undefined) {
    const { id, digest, requestedBy, base, preview } = approval;
    // Another request of the same change may have replaced this one while the confirmation waited for the operation's lock.
    const ended = await endedRequest(services, id);
    if (ended !== null) return ended;
    if (base === change.base && jsonEqual(asJson(preview), asJson(change.preview)))
      return apply({ id, digest, requestedBy, weaker: preview.weaker });
    if (change.preview === null || change.neverRenewed) {
      // Two builds may compare in different ways.
      if (base === change.base) return stillWaits();
      return outdated(refuse('CONFLICT', 'The state that was previewed has changed. Request the change again.'));
    }
    return requestChange(services, { ...call, replaces: { id, requestedBy } }, { ...change, preview: change.preview });
  }
  if (change.preview === null || (await mayActAlone(services, call.caller, change))) return apply(undefined);
  return requestChange(services, call, { ...change, preview: change.preview });
}

/** The refusal if the request of this id no longer waits. */
async function endedRequest(
  { clock, store }: Pick<Services, 'clock' | 'store'>,
  id: Uuid,
): Promise<{ ok: false; refusal: Refusal } | null> {
  const request = await store.changeRequests.find(id);
  const status = request === null ? 'expired' : changeStatusOf(request, clock.now());
  return status === 'awaiting_confirmation'
    ? null
    : refuse('ILLEGAL_TRANSITION', `The change is ${status}, not awaiting confirmation.`);
}

/** Whether the caller needs no confirmation, because the policy lets them confirm their own critical change. */
async function mayActAlone(
  services: Pick<Services, 'actors' | 'agentTokens'>,
  caller: Caller,
  { operation }: ProposedChange,
): Promise<boolean> {
  if (changeKinds[operation] !== 'critical') return false;
  const { principal } = caller;
  const agentKey = await usesAgentKey(services, [principal]);
  // Read last, so that a policy changed during the lookup applies.
  const { snapshot } = await readTenant(services, caller);
  return mayConfirm(snapshot.context.fixed.policy, principal, principal, { inbox: true, agentKey }).ok;
}

const asJson = (value: ChangePreview | null): Json => value as unknown as Json;

/** Stores the change request, in place of `replaces` and of an earlier one of the same requester for the same change. */
async function requestChange(
  services: Pick<Services, 'actors' | 'audit' | 'clock' | 'locks' | 'newId' | 'store'>,
  call: Call<unknown> & { replaces?: { id: Uuid; requestedBy: Principal } },
  { operation, subject, base, preview }: ProposedChange & { preview: ChangePreview },
): Promise<Outcome<Answer<ChangeDryRun>>> {
  const { input, caller, idempotent } = call;
  const { clock, locks, newId, store } = services;
  const { snapshot } = await readTenant(services, caller);
  const { policy, earlierRules = [] } = snapshot.context.fixed;
  const token = randomUUID();
  const now = clock.now();
  const by = originatorOf(caller.principal);
  const requestedBy = originatorOf(call.replaces?.requestedBy ?? caller.principal);
  const bound = {
    ...{ id: newId(), tenantId: tenantOf(caller), operation, subject, base, preview, requestedBy },
    // Without members that are undefined, as it is stored.
    input: JSON.parse(JSON.stringify(input)) as JsonObject,
  };
  const request: ChangeRequest = {
    ...bound,
    digest: changeDigest(bound),
    tokenHash: hashChangeToken(token),
    createdAt: now,
    expiresAt: now + policy.confirm_ttl_s * 1_000,
    ...{ status: 'awaiting_confirmation', decidedBy: null, decidedAt: null, reason: null },
  };
  const answer = {
    status: 409,
    body: {
      status: 'dry_run_required' as const,
      reason: changeReason(request),
      dry_run_token: token,
      expires_at: iso(request.expiresAt),
      change_id: request.id,
      preview: preview as z.infer<typeof changeEffect>,
    },
  };
  const limits = waitingLimits(requestedBy);
  const inserted = await locks.exclusive(`change-requests:${request.tenantId}`, () =>
    store.changeRequests.insert(
      request,
      limits,
      { by, replaces: call.replaces?.id, expiredUntil: expiredUntil(policy, earlierRules, now) },
      idempotent?.toRow(answer),
    ),
  );
  if (inserted !== 'inserted') return { ok: false, refusal: insertionRefusal(inserted, requestedBy, limits) };
  await services.audit.recordDone({
    ...{ tenantId: request.tenantId, by: caller.principal.id },
    ...{ key: caller.principal.key ?? null, via: caller.principal.via ?? null },
    ...{ action: 'requestChange', subject: `change:${request.id}`, ...originOf(caller) },
  });
  return done(answer);
}

/** Without what belongs to one request. */
function originatorOf({ requestId: _, operation: __, ...originator }: Principal): Principal {
  return originator;
}

function insertionRefusal(
  reached: Exclude<ChangeRequestInsertion, 'inserted'>,
  requestedBy: Principal,
  { own, all }: WaitingLimits,
): Refusal {
  const whose = isPerson(requestedBy) ? 'a person' : 'an API key or an agent';
  switch (reached) {
    case 'ended':
      return { code: 'ILLEGAL_TRANSITION', detail: 'The change no longer waits.' };
    case 'own':
      return {
        code: 'CONFLICT',
        detail: `${own} changes that you requested wait for a confirmation, the maximum for ${whose}. One of them must be confirmed or refused first.`,
      };
    case 'all':
      return {
        code: 'CONFLICT',
        detail: `${all} changes of the tenant wait for a confirmation, the maximum for a request of ${whose}. One of them must be confirmed or refused first.`,
      };
  }
}

export function changeReason({ operation, preview: { weaker } }: ChangeRequest): string {
  if (changeKindOf(operation) === 'critical') return 'The change is critical and needs confirmation.';
  return `The change makes ${weaker.length === 1 ? 'one thing' : `${weaker.length} things`} weaker and needs confirmation.`;
}

/** The stored form of a dry-run token. */
export const hashChangeToken = (token: string): string => hash('sha256', token.toLowerCase());

/** The members that a confirmation covers. */
type BoundMembers = Pick<
  ChangeRequest,
  'id' | 'tenantId' | 'operation' | 'subject' | 'base' | 'preview' | 'requestedBy' | 'input'
>;

/** SHA-256 (hex) of what a confirmation covers, in canonical form. */
export function changeDigest(request: BoundMembers): string {
  const { id, tenantId, operation, subject, base, preview, requestedBy, input } = request;
  const bound: BoundMembers = { id, tenantId, operation, subject, base, preview, requestedBy, input };
  return payloadHash(bound as unknown as JsonObject);
}
