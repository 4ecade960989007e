import { z } from 'zod';
import type { CognitionProposal, GraphNode } from '#proto/cognition/v1/runtime_pb.js';
import { checkJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import { MAX_SHAPING_MEMORIES } from '../../domain/memory.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { readFields } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, JsonObject, Uuid } from '../../domain/values.ts';

// Validates proposals before they are executed. Whether the context accepts a proposal is decided by the operations.

export type ProposalBody =
  | { type: 'graphNode'; node: JsonObject; memoryIds: readonly Uuid[] }
  | { type: 'suspend'; reason: string; forS: number | null }
  | { type: 'complete'; summary: string; finalState: JsonObject | null }
  | { type: 'error'; code: string; detail: string };

/** Identifies the proposal in the answer. An id that is not valid is replaced by an empty string. */
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
  graphNode: z.object({ memory_ids: z.array(uuid).max(MAX_SHAPING_MEMORIES) }),
  suspend: z.object({ reason: sentenceSchema, forS: z.number().int().max(3_600, 'must be at most 3600') }),
  complete: z.object({ summary: sentenceSchema, finalState: jsonObjectSchema }),
  error: z.object({
    code: z.string().regex(/^[A-Z0-9_]{1,64}$/, 'must be 1 to 64 characters of A-Z, 0-9 and _'),
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
    return refuse('VALIDATION_FAILED', 'proposal_id must be at most 64 characters without control characters.');
  }
  const body = parseBody(proposal);
  if (!body.ok) return body;
  const checked = checkJson(body.value as unknown as Json);
  return checked.ok ? body : refuse('VALIDATION_FAILED', `The proposal cannot be stored: ${checked.reason}.`);
}

function parseBody(proposal: CognitionProposal['proposal']): Outcome<ProposalBody> {
  switch (proposal.case) {
    case 'graphNode': {
      const { node, memoryIds } = proposal.value;
      if (node === undefined) return refuse('VALIDATION_FAILED', 'The proposal has no node.');
      const read = readFields(bodySchemas.graphNode, { memory_ids: memoryIds });
      return read.ok
        ? done({ type: 'graphNode', node: planStepOf(node), memoryIds: read.value.memory_ids })
        : withSingleDetail(read);
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
    case undefined:
      return refuse('VALIDATION_FAILED', 'The proposal is empty or of an unknown kind.');
  }
}

/** A step in the format of `POST /plans`, which validates it. */
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

/** Moves the first field error into `detail`: the protobuf answer has no list of errors. */
export function withSingleDetail(
  refused: Extract<Outcome<unknown>, { ok: false }>,
): Extract<Outcome<unknown>, { ok: false }> {
  const { refusal } = refused;
  const [error] = refusal.errors ?? [];
  if (error === undefined) return refused;
  const detail = `${error.path === '' ? 'proposal' : error.path}: ${error.message}`.slice(0, 500);
  return { ok: false, refusal: { ...refusal, detail } };
}
