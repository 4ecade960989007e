import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type CognitionProposal, CognitionProposalSchema } from '#proto/cognition/v1/runtime_pb.js';
import type { JsonObject, Step } from './model.ts';

// What a sidecar may say about a context, as messages of the stream.

export type Word =
  | { step: Step }
  | { suspend: string; forS: number }
  | { complete: string; finalState: JsonObject }
  | { error: string; code: string };

/** Sentences are cut there (`runtime.proto`). */
const SENTENCE = 1_000;

export const proposal = (contextId: string, proposalId: string, word: Word): CognitionProposal =>
  create(CognitionProposalSchema, { contextId, proposalId, proposal: payload(word) });

function payload(word: Word): NonNullable<MessageInitShape<typeof CognitionProposalSchema>['proposal']> {
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
  if ('suspend' in word) return { case: 'suspend', value: { reason: sentence(word.suspend), forS: word.forS } };
  if ('complete' in word) {
    return { case: 'complete', value: { summary: sentence(word.complete), finalState: word.finalState } };
  }
  return { case: 'error', value: { code: codeOf(word.code), detail: sentence(word.error) } };
}

/** One line, short enough, and whole: a pair of surrogates is not cut in two. */
const sentence = (text: string): string => {
  const line = text.replace(/\p{Cc}+/gu, ' ').trim();
  return line.length <= SENTENCE
    ? line.toWellFormed()
    : `${line.slice(0, SENTENCE - 1).replace(/[\uD800-\uDBFF]$/, '')}…`.toWellFormed();
};

const codeOf = (code: string): string => (/^[A-Z0-9_]{1,64}$/.test(code) ? code : 'INTERNAL');
