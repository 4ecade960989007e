import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { CognitionProposalSchema } from '#proto/cognition/v1/runtime_pb.js';
import { parseProposal } from '../../../src/edges/grpc/proposal-parser.ts';
import { newId } from '../../../src/main/ids.ts';
import { expectOwnText } from '../../support/error-texts.ts';

type Body = Exclude<MessageInitShape<typeof CognitionProposalSchema>['proposal'], undefined>;

const parse = (proposal: Body) => parseProposal(create(CognitionProposalSchema, { proposalId: 'p', proposal }));
const long = 'x'.repeat(1_001);

describe('a proposal with a wrong field', () => {
  it.each<[string, Body, string]>([
    ['a long reason', { case: 'suspend', value: { reason: long } }, 'reason: must be at most 1000 characters'],
    ['a long time', { case: 'suspend', value: { reason: '', forS: 3_601 } }, 'forS: must be at most 3600'],
    ['a long summary', { case: 'complete', value: { summary: long } }, 'summary: must be at most 1000 characters'],
    ['a long detail', { case: 'error', value: { code: 'E', detail: long } }, 'detail: must be at most 1000 characters'],
    [
      'a code in lower case',
      { case: 'error', value: { code: 'e', detail: '' } },
      'code: must be 1 to 64 characters of A-Z, 0-9 and _',
    ],
    [
      'too many memories',
      { case: 'graphNode', value: { node: {}, memoryIds: Array.from({ length: 101 }, () => newId()) } },
      'memory_ids: must be at most 100 items',
    ],
  ])('is refused in a text of the service: %s', (_, body, expected) => {
    const parsed = parse(body);
    expect(parsed).toMatchObject({ ok: false, refusal: { code: 'VALIDATION_FAILED', detail: expected } });
    expectOwnText(expected.replace(/^\w+: /, ''), new Set(['must be 1 to 64 characters of A-Z, 0-9 and _']));
  });

  it.each<[string, Body]>([
    ['no kind', { case: undefined }],
    ['no node', { case: 'graphNode', value: {} }],
  ])('is refused with %s', (_, body) => {
    expect(parse(body)).toMatchObject({ refusal: { detail: expect.stringMatching(/^The proposal /) } });
  });
});
