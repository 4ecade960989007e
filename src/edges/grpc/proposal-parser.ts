import { z } from 'zod';
import type { CognitionProposal, GraphNode } from '#proto/cognition/v1/runtime_pb.js';
import { checkJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { readFields, uuid } from '../../domain/request-fields.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';

// What a sidecar says, checked before anybody acts on it. Whether a context may hear it is not decided here.

export type ProposalBody =
  | { type: 'graphNode'; node: JsonObject }
  | { type: 'suspend'; reason: string; forS: number | null }
  | { type: 'complete'; summary: string; finalState: JsonObject | null }
  | { type: 'error'; code: string; detail: string };

/** What an answer names, as far as it can be said back. */
export interface ProposalRef {
  proposalId: string;
  contextId: Uuid | '';
  nodeId: string;
}

const idSchema = z
  .string()
  .max(64)
  .regex(/^\P{Cc}*$/u);
const sentenceSchema = z.string().max(1_000);
const jsonObjectSchema = z.custom<JsonObject>(isObject).nullable();

const bodySchemas = {
  suspend: z.object({ reason: sentenceSchema, forS: z.number().int().max(3_600, 'is at most 3600') }),
  complete: z.object({ summary: sentenceSchema, finalState: jsonObjectSchema }),
  error: z.object({
    code: z.string().regex(/^[A-Z0-9_]{1,64}$/, 'holds 1 to 64 of A-Z, 0-9 and _'),
    detail: sentenceSchema,
  }),
};

export function proposalRefOf({ proposalId, contextId, proposal }: CognitionProposal): ProposalRef {
  const nodeId = proposal.case === 'graphNode' ? (proposal.value.node?.nodeId ?? '') : '';
  return {
    proposalId: sanitizeId(proposalId),
    contextId: uuid.safeParse(contextId).data ?? '',
    nodeId: sanitizeId(nodeId),
  };
}

const sanitizeId = (text: string): string => (idSchema.safeParse(text).success ? text : '');

export function parseProposal({ proposalId, proposal }: CognitionProposal): Outcome<ProposalBody> {
  if (!idSchema.safeParse(proposalId).success) {
    return refuse('VALIDATION_FAILED', 'proposal_id has at most 64 characters, none of them a control character.');
  }
  const word = parseBody(proposal);
  if (!word.ok) return word;
  const sound = checkJson(word.value);
  return sound.ok ? word : refuse('VALIDATION_FAILED', `What it says cannot be kept: ${sound.reason}.`);
}

function parseBody(proposal: CognitionProposal['proposal']): Outcome<ProposalBody> {
  switch (proposal.case) {
    case 'graphNode': {
      const { node } = proposal.value;
      if (node === undefined) return refuse('VALIDATION_FAILED', 'The proposal has no node.');
      return done({ type: 'graphNode', node: planStepOf(node) });
    }
    case 'suspend': {
      const { reason, forS } = proposal.value;
      const read = readFields(bodySchemas.suspend, { reason, forS });
      return read.ok ? done({ type: 'suspend', reason, forS: forS === 0 ? null : forS }) : withSingleDetail(read);
    }
    case 'complete': {
      const { summary, finalState = null } = proposal.value;
      const read = readFields(bodySchemas.complete, { summary, finalState });
      return read.ok ? done({ type: 'complete', summary, finalState }) : withSingleDetail(read);
    }
    case 'error': {
      const { code, detail } = proposal.value;
      const read = readFields(bodySchemas.error, { code, detail });
      return read.ok ? done({ type: 'error', code, detail }) : withSingleDetail(read);
    }
    default:
      return refuse('VALIDATION_FAILED', 'The proposal proposes nothing that is known here.');
  }
}

/** A step as `POST /plans` takes it; what is wrong with it is found there. */
function planStepOf({ nodeId, deviceId, action, params, dependsOn, compensation, timeoutS }: GraphNode): JsonObject {
  return {
    ...{ id: nodeId, device_id: deviceId, action },
    ...(params && { params }),
    ...(dependsOn.length > 0 && { depends_on: dependsOn }),
    ...(compensation && {
      compensation: { action: compensation.action, ...(compensation.params && { params: compensation.params }) },
    }),
    ...(timeoutS !== 0 && { timeout_s: timeoutS }),
  };
}

/** There is one sentence to answer with: it says what is wrong where. */
export function withSingleDetail(
  refused: Extract<Outcome<unknown>, { ok: false }>,
): Extract<Outcome<unknown>, { ok: false }> {
  const { refusal } = refused;
  const [error] = refusal.errors ?? [];
  if (error === undefined) return refused;
  const detail = `${error.path === '' ? 'The proposal' : error.path} ${error.message}`.slice(0, 500);
  return { ok: false, refusal: { ...refusal, detail } };
}
