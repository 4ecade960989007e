import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import {
  type AppliedChange,
  type ChangePreview,
  type ChangeRequest,
  type ConfirmedOperation,
  changeKindOf,
  changeKinds,
} from '../../domain/change-request.ts';
import { mayConfirm } from '../../domain/gateway.ts';
import { iso } from '../../domain/iso-time.ts';
import { jsonEqual } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject, Principal } from '../../domain/values.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import { usesAgentKey } from '../agent-keys.ts';
import { originOf } from '../audit-recording.ts';
import { readTenant } from '../commands/gateway-facts.ts';
import { isoTime } from '../inputs.ts';
import { type Answer, type Call, type Caller, type Services, tenantOf } from '../operation.ts';

/*
 * Changes that make something weaker, and critical changes that the policy does not let the requester confirm, wait for a
 * confirmation under the tenant's safety policy, as critical commands do (decisions 47 and 52). An operation computes
 * the effect of its change and calls `applyOrRequest`; it is listed in confirmable-operations.ts, so that it can be run again
 * when the change is confirmed.
 */

/** Change requests of a tenant that may wait at once. */
const MAX_WAITING = 200;

export const changeEffect = z
  .object({
    weaker: z.array(z.string()).meta({
      description: 'One sentence for each rule that gets weaker, or for each effect of a critical change',
    }),
    changes: z.record(z.string(), z.object({ from: z.json(), to: z.json() })),
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
  /** The input names the state that it changes, so it cannot be requested again for another one. */
  namesState?: true;
}

type ChangeServices = Pick<Services, 'actors' | 'agentTokens' | 'audit' | 'clock' | 'newId' | 'store'>;

/**
 * Applies a change that needs no confirmation or was confirmed, and otherwise stores it as a change request and answers 409
 * with its dry-run token. `apply` receives the change request; the event of an actor must emit `change.apply`. If the state
 * has changed since the preview, the change is requested again for its requester, with a new preview.
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
    if (base === change.base && jsonEqual(asJson(preview), asJson(change.preview)))
      return apply({ id, digest, requestedBy, weaker: preview.weaker });
    // Two builds may compare in different ways.
    if (base === change.base && change.namesState)
      return refuse('CONFLICT', 'This version of the service has another preview of the change.');
    if (change.preview === null || change.namesState)
      return refuse('CONFLICT', 'The state that was previewed has changed. Request the change again.');
    return requestChange(services, { ...call, requestedBy }, { ...change, preview: change.preview });
  }
  if (change.preview === null || (await mayActAlone(services, call.caller, change))) return apply(undefined);
  return requestChange(services, call, { ...change, preview: change.preview });
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

async function requestChange(
  services: Pick<Services, 'actors' | 'audit' | 'clock' | 'newId' | 'store'>,
  call: Call<unknown> & { requestedBy?: Principal },
  { operation, subject, base, preview }: ProposedChange & { preview: ChangePreview },
): Promise<Outcome<Answer<ChangeDryRun>>> {
  const { input, caller, idempotent } = call;
  const { clock, newId, store } = services;
  const { snapshot } = await readTenant(services, caller);
  const token = randomUUID();
  const now = clock.now();
  const { requestId: _, operation: __, ...requestedBy } = call.requestedBy ?? caller.principal;
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
    expiresAt: now + snapshot.context.fixed.policy.confirm_ttl_s * 1_000,
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
  const stored = await store.changeRequests.insert(request, MAX_WAITING, idempotent?.toRow(answer));
  if (!stored)
    return refuse('CONFLICT', `${MAX_WAITING} changes already wait for a confirmation. Confirm or refuse one first.`);
  await services.audit.recordDone({
    ...{ tenantId: request.tenantId, by: caller.principal.id },
    ...{ key: caller.principal.key ?? null, via: caller.principal.via ?? null },
    ...{ action: 'requestChange', subject: `change:${request.id}`, ...originOf(caller) },
  });
  return done(answer);
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
