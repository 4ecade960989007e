import type { PendingConfirmation } from '../confirmations/pending-confirmation.ts';
import { useUserNames } from './user-names.ts';

type RequestedWith = PendingConfirmation['requested_with'];

/** The user who requested something, and with which credential. */
export function Requester({ of: { requested_by, requested_with } }: { of: RequesterMembers }) {
  const nameOf = useUserNames();
  return (
    <>
      {nameOf(requested_by)}
      {requested_with !== undefined && credentialText(requested_with)}
    </>
  );
}

interface RequesterMembers {
  requested_by: string;
  requested_with?: RequestedWith | undefined;
}

function credentialText({ kind, prefix, name }: RequestedWith): string {
  switch (kind) {
    case 'person':
      return '';
    case 'api_key':
      return ` with the key${name === undefined ? '' : ` “${name}”`} (twk_${prefix}…)`;
    case 'mcp':
      return ' through an agent (MCP)';
    case 'program':
      return ' through a program';
  }
}
