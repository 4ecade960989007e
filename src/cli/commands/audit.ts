import type { Command } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, printTable } from '../print.ts';

interface AuditEntry {
  at: string;
  by: string;
  key: string | null;
  via: string;
  action: string;
  subject: string;
  outcome: string;
  request_id: string | null;
}

interface AuditOptions {
  by?: string;
  action?: string;
  subject?: string;
  from?: string;
  to?: string;
  tenant?: string;
  platform?: boolean;
  limit: number;
  cursor?: string;
}

export function addAudit(program: Command, io: Io): void {
  program
    .command('audit')
    .summary('list the audit log')
    .description('Lists the actions of users in the tenant, including refused ones, newest first. For admins.')
    .option('--by <user-id>', 'only actions of this user')
    .option('--action <operation>', 'only this operation, such as rotateSecret')
    .option('--subject <kind:id>', 'only actions on this subject, such as device:<id>')
    .option('--from <time>', 'only at or after this time, such as 2026-03-01T00:00:00Z')
    .option('--to <time>', 'only before this time')
    .option('--tenant <tenant-id>', 'in this tenant (platform operators only)')
    .option('--platform', 'entries that belong to no tenant (platform operators only)')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, tenant, platform, ...options }: AuditOptions, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const query = { ...options, tenant_id: tenant, ...(platform && { platform: 'true' }) };
      type Body = { entries: AuditEntry[]; next_cursor: string | null };
      const body = await fetchPages<Body>(api, '/v1/audit', { name: 'entries', limit, query });
      show(body, ({ entries, next_cursor }) => {
        const rows = entries.map(({ at, by, key, via, action, subject, outcome }) => [
          ...[at, key === null ? by : `${by} (key ${key})`, via, action, subject],
          outcome === 'done' ? outcome : colorStatus(io, outcome),
        ]);
        printTable(io, ['AT', 'BY', 'VIA', 'ACTION', 'SUBJECT', 'OUTCOME'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
}
