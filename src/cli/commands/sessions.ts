import type { Command } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { escapeForTerminal } from '../terminal-text.ts';

interface Session {
  id: string;
  kind: string;
  client: string | null;
  address: string | null;
  current?: boolean;
  last_used_at: string;
  expires_at: string;
}
export interface SessionPage {
  sessions: Session[];
  next_cursor: string | null;
}

const SESSIONS = '/v1/auth/sessions';

export function addSessions(program: Command, io: Io): void {
  const sessions = program
    .command('sessions')
    .summary('list and end your sessions')
    .description('Manages your sessions: browsers, command lines and other tokens. API keys are not sessions.');
  sessions
    .command('list', { isDefault: true })
    .description('Lists your sessions, newest first; * marks the one that this command uses.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<SessionPage>(SESSIONS, { limit: String(limit), cursor }), (page) => printSessions(io, page));
    });
  sessions
    .command('end <id...>')
    .description('Ends sessions and everything that was derived from them. Admins can end those of members.')
    .action(async (ids: string[], _options, command: Command) => {
      const { api } = createCliContext(io, command);
      for (const id of new Set(ids)) await api.request('DELETE', `${SESSIONS}/${encodeURIComponent(id)}`);
    });
  sessions
    .command('end-all')
    .description('Signs you out everywhere: ends all your sessions and tokens, also the one that this command uses.')
    .action(async (_options, command: Command) => {
      const { api } = createCliContext(io, command);
      await api.request('DELETE', SESSIONS);
    });
}

export function printSessions(io: Io, { sessions, next_cursor }: SessionPage): void {
  const rows = sessions.map(({ id, kind, client, address, current, last_used_at, expires_at }) => [
    current ? `${id} *` : id,
    kind,
    client === null ? null : escapeForTerminal(client),
    address,
    last_used_at,
    expires_at,
  ]);
  printTable(io, ['ID', 'KIND', 'CLIENT', 'ADDRESS', 'LAST USED', 'EXPIRES'], rows);
  if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
}
