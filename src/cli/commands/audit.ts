import { type Command, Option } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, printTable } from '../print.ts';
import { fetchShownNames, type ShownNameOf } from '../shown-names.ts';

interface AuditEntry {
  at: string;
  by: string;
  key: string | null;
  via: string;
  action: string;
  subject: string;
  outcome: string;
  request_id: string | null;
  address: string | null;
  client: string | null;
  count: number;
}

interface TenantOptions {
  tenant?: string;
  platform?: boolean;
}

interface Filters extends TenantOptions {
  by?: string;
  action?: string;
  subject?: string;
  from?: string;
  to?: string;
}

interface AuditOptions extends Filters {
  limit: number;
  cursor?: string;
}

interface VerifyOptions extends TenantOptions {
  from?: string;
  retentionDays?: number;
}

interface Verification {
  intact: boolean;
  problem: string | null;
  blocks: number;
  entries: number;
  expired: number;
  head: string | null;
  sealed_to: string | null;
  unsealed: number;
  next: string | null;
}

export function addAudit(program: Command, io: Io): void {
  const audit = withFilters(program.command('audit'))
    .summary('list, export and verify the audit log')
    .description('Lists the actions of users in the tenant, including refused ones, newest first. For admins.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor, ...filters }: AuditOptions, command: Command) => {
      const client = createCliContext(io, command);
      const { api, show } = client;
      const query = { ...(await queryOf(client, filters)), cursor };
      type Body = { entries: AuditEntry[]; next_cursor: string | null };
      const body = await fetchPages<Body>(api, '/v1/audit', { name: 'entries', limit, query });
      // Users of another tenant are not members.
      const isOwnTenant = filters.tenant === undefined && !filters.platform;
      const users = isOwnTenant ? body.entries.map(({ by }) => by) : [];
      const userName = await fetchShownNames(client, 'member', users);
      show(body, ({ entries, next_cursor }) => {
        printTable(io, columns, entries.map(rowOf(io, userName)));
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
  addExport(audit, io);
  addVerify(audit, io);
}

const columns = ['AT', 'BY', 'VIA', 'ACTION', 'SUBJECT', 'OUTCOME', 'COUNT', 'ADDRESS', 'CLIENT'];

const rowOf =
  (io: Io, userName: ShownNameOf) =>
  ({ at, by, key, via, action, subject, outcome, count, address, client }: AuditEntry) => [
    ...[at, key === null ? userName(by) : `${userName(by)} (key ${key})`, via, action, subject],
    ...[outcome === 'done' ? outcome : colorStatus(io, outcome), count, address, client],
  ];

// `audit` has some of the options of its subcommands, and takes them wherever they are: `optsWithGlobals` has both.

const withTenant = (command: Command): Command =>
  command
    .option('--tenant <tenant-id>', 'in this tenant (platform operators only)')
    .option('--platform', 'entries that belong to no tenant (platform operators only)');

const withFilters = (command: Command): Command =>
  withTenant(
    command
      .option('--by <member>', 'only actions of this member, also a former one by id')
      .option('--action <operation>', 'only this operation, such as rotateSecret')
      .option('--subject <kind:id>', 'only actions on this subject, such as device:<id>')
      .option('--from <time>', 'only at or after this time, such as 2026-03-01T00:00:00Z')
      .option('--to <time>', 'only before this time'),
  );

const tenantQuery = ({ tenant, platform }: TenantOptions) => ({
  tenant_id: tenant,
  ...(platform && { platform: 'true' }),
});

const queryOf = async ({ resolveOption }: CliContext, { by, action, subject, from, to, ...of }: Filters) => ({
  // A name means a member of one's own tenant.
  ...{
    by: of.tenant === undefined && !of.platform ? await resolveOption('member', by) : by,
    action,
    subject,
    from,
    to,
  },
  ...tenantQuery(of),
});

function addExport(audit: Command, io: Io): void {
  withFilters(audit.command('export'))
    .summary('write the audit log to stdout, as NDJSON or CSV')
    .description(
      'Writes the audit log, newest first: one JSON object a line, or CSV for spreadsheets, in which texts that look like a formula begin with an apostrophe.',
    )
    .addOption(new Option('--format <format>', 'form of the file').choices(['ndjson', 'csv']).default('ndjson'))
    .action(async (_options: object, command: Command) => {
      const { format, ...filters } = command.optsWithGlobals<Filters & { format: string }>();
      const client = createCliContext(io, command);
      const query = { format, ...(await queryOf(client, filters)) };
      await client.api.download('/v1/audit/export', query, io.stdout);
    });
}

function addVerify(audit: Command, io: Io): void {
  withTenant(audit.command('verify'))
    .summary('verify the hash chain over the audit log')
    .description(
      'Verifies that no sealed entry of the audit log was changed, added or removed. Keep the head that it prints outside the service: with --from, a later run also detects entries removed at the end, a chain that was written again, and a block that was deleted before its entries expired.',
    )
    .option('--from <head>', 'verify what follows this head, which must be part of the chain')
    .option(
      '--retention-days <n>',
      'no entry of so many days may be gone (default: the retention of the service; a smaller number if it was raised)',
      parseIntegerBetween(1, 36_500),
    )
    .action(async (_options: object, command: Command) => {
      const { from, retentionDays, ...of } = command.optsWithGlobals<VerifyOptions>();
      const { api, show } = createCliContext(io, command);
      const total = { blocks: 0, entries: 0, expired: 0 };
      let part: Verification;
      let next = from ?? null;
      do {
        const query = {
          ...tenantQuery(of),
          ...(next !== null && { from: next }),
          ...(retentionDays !== undefined && { retention_days: String(retentionDays) }),
        };
        part = await api.get<Verification>('/v1/audit/verify', query);
        for (const name of ['blocks', 'entries', 'expired'] as const) total[name] += part[name];
        next = part.next;
      } while (next !== null && part.intact);
      show({ ...part, ...total }, ({ intact, problem, blocks, entries, expired, head, sealed_to, unsealed }) => {
        io.out(
          intact ? `${entries} entries in ${blocks} blocks are intact.` : `The audit log is not intact: ${problem}`,
        );
        if (expired > 0) io.out(`Entries of ${expired} further blocks have expired.`);
        if (unsealed > 0) io.out(`${unsealed} entries are not sealed yet.`);
        if (head !== null) io.out(`Sealed to ${sealed_to}, head ${head}`);
      });
      if (!part.intact) throw new FailedError('the audit log is not intact');
    });
}
