import type { ShownNameOf } from './shown-names.ts';
import { escapeForTerminal } from './terminal-text.ts';

/** The requester of what waits for a confirmation. A service of an earlier version does not send `requested_with`. */
export interface RequesterFields {
  requested_by: string;
  requested_with?: { kind: 'person' | 'api_key' | 'mcp' | 'program'; prefix?: string; name?: string };
}

/** The user, as an id or by name, and the credential, for a sentence. */
export const requesterText = (
  { requested_by, requested_with }: RequesterFields,
  nameOf: ShownNameOf = (id) => id,
): string => `${nameOf(requested_by)}${requested_with === undefined ? '' : credentialText(requested_with)}`;

function credentialText({ kind, prefix, name }: NonNullable<RequesterFields['requested_with']>): string {
  switch (kind) {
    case 'person':
      return '';
    case 'api_key':
      return ` with the key${name === undefined ? '' : ` “${escapeForTerminal(name)}”`} (twk_${prefix}…)`;
    case 'mcp':
      return ' through an agent (MCP)';
    case 'program':
      return ' through a program';
  }
}
