import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type CognitionProposal, CognitionProposalSchema } from '#proto/cognition/v1/runtime_pb.js';
import type { JsonObject, Step } from './planner-types.ts';

// What a sidecar may say about a context, as messages of the stream.

export type ProposalBody =
  | { step: Step }
  | { suspend: string; forS: number }
  | { complete: string; finalState: JsonObject }
  | { error: string; code: string };

/** Sentences are cut there (`runtime.proto`). */
const MAX_SENTENCE_CHARACTERS = 1_000;

export const encodeProposal = (contextId: string, proposalId: string, word: ProposalBody): CognitionProposal =>
  create(CognitionProposalSchema, { contextId, proposalId, proposal: encodeBody(word) });

function encodeBody(word: ProposalBody): NonNullable<MessageInitShape<typeof CognitionProposalSchema>['proposal']> {
  if ('step' in word) {
    const { id, deviceId, action, params, dependsOn, compensation } = word.step;
    const node = {
      nodeId: id,
      deviceId,
      action,
      params,
      dependsOn: [...dependsOn],
      ...(compensation && { compensation }),
    };
    return { case: 'graphNode', value: { node } };
  }
  if ('suspend' in word) return { case: 'suspend', value: { reason: toSentence(word.suspend), forS: word.forS } };
  if ('complete' in word) {
    return { case: 'complete', value: { summary: toSentence(word.complete), finalState: word.finalState } };
  }
  return { case: 'error', value: { code: errorCodeOf(word.code), detail: toSentence(word.error) } };
}

/** One line, short enough, and whole: a pair of surrogates is not cut in two. */
const toSentence = (text: string): string => {
  const line = text.replace(/\p{Cc}+/gu, ' ').trim();
  return line.length <= MAX_SENTENCE_CHARACTERS
    ? line.toWellFormed()
    : `${line.slice(0, MAX_SENTENCE_CHARACTERS - 1).replace(/[\uD800-\uDBFF]$/, '')}…`.toWellFormed();
};

const errorCodeOf = (code: string): string => (/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'INTERNAL');
