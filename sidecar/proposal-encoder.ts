import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type CognitionProposal, CognitionProposalSchema } from '#proto/cognition/v1/runtime_pb.js';
import type { JsonObject, NewStep } from './planner-types.ts';

// Encodes proposals about a context as messages of the stream.

export type OutgoingProposal =
  | { step: NewStep }
  | { suspend: string; forS: number }
  | { complete: string; finalState: JsonObject }
  | { error: string; code: string };

/** Limit of `runtime.proto`; longer sentences are cut. */
const MAX_SENTENCE_CHARACTERS = 1_000;
/** Limit of `runtime.proto`. */
const MAX_MEMORY_IDS = 100;

export const encodeProposal = (contextId: string, proposalId: string, body: OutgoingProposal): CognitionProposal =>
  create(CognitionProposalSchema, { contextId, proposalId, proposal: encodeBody(body) });

function encodeBody(body: OutgoingProposal): NonNullable<MessageInitShape<typeof CognitionProposalSchema>['proposal']> {
  if ('step' in body) {
    const { id, deviceId, action, params, dependsOn, compensation, memoryIds } = body.step;
    const node = {
      nodeId: id,
      deviceId,
      action,
      params,
      dependsOn: [...dependsOn],
      ...(compensation && { compensation }),
    };
    return { case: 'graphNode', value: { node, memoryIds: memoryIds.slice(0, MAX_MEMORY_IDS) } };
  }
  if ('suspend' in body) return { case: 'suspend', value: { reason: toSentence(body.suspend), forS: body.forS } };
  if ('complete' in body) {
    return { case: 'complete', value: { summary: toSentence(body.complete), finalState: body.finalState } };
  }
  return { case: 'error', value: { code: errorCodeOf(body.code), detail: toSentence(body.error) } };
}

/** One line within the limit, without a split surrogate pair. */
const toSentence = (text: string): string => {
  const line = text.replace(/\p{Cc}+/gu, ' ').trim();
  return line.length <= MAX_SENTENCE_CHARACTERS
    ? line.toWellFormed()
    : `${line.slice(0, MAX_SENTENCE_CHARACTERS - 1).replace(/[\uD800-\uDBFF]$/, '')}…`.toWellFormed();
};

const errorCodeOf = (code: string): string => (/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'INTERNAL');
