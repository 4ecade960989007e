import { expect, it } from 'vitest';
import { type RequesterFields, requesterText } from '../../src/cli/requester-text.ts';

it.each<[string, RequesterFields['requested_with'], string]>([
  ['a person', { kind: 'person' }, 'u1'],
  [
    'an API key',
    { kind: 'api_key', prefix: 'abcd2345', name: 'agent\u001b[2J' },
    'u1 with the key “agent\\u{1b}[2J” (twk_abcd2345…)',
  ],
  ['an API key that was deleted', { kind: 'api_key', prefix: 'abcd2345' }, 'u1 with the key (twk_abcd2345…)'],
  ['an agent', { kind: 'mcp' }, 'u1 through an agent (MCP)'],
  ['a program', { kind: 'program' }, 'u1 through a program'],
  ['a service of an earlier version', undefined, 'u1'],
])('the requester is shown with the credential: %s', (_, requested_with, text) => {
  expect(requesterText({ requested_by: 'u1', ...(requested_with && { requested_with }) })).toBe(text);
});
