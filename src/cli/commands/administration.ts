import { Argument, type Command, InvalidArgumentError } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { colorStatus, printRecord, printTable } from '../print.ts';
import { addNodes } from './nodes.ts';

interface Tenant {
  id: string;
  name: string;
  slug: string;
  created_at: { _seconds: number; _nanoseconds: number };
}

const tenantActionPath = (id: string, verb: string): string => `/v1/admin/tenants/${encodeURIComponent(id)}/${verb}`;

export function addAdministration(program: Command, io: Io): void {
  const admin = program
    .command('admin')
    .summary('tenants, system flags and nodes')
    .description('Commands for platform operators. They require a token with the scope platform:admin.')
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep admin tenants --token $(twinkeep token --sub operator --scope platform:admin)',
    );
  addTenants(admin, io);
  addFlags(admin, io);
  addNodes(admin, io);
}

function addTenants(admin: Command, io: Io): void {
  admin
    .command('tenants')
    .description('Lists all tenants, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const query = new URLSearchParams({ limit: String(limit), ...(cursor !== undefined && { cursor }) });
      const { body, headers } = await api.request<Tenant[]>('GET', `/v1/admin/tenants?${query}`);
      show(body, (tenants) => {
        const rows = tenants.map(({ id, name, slug, created_at }) => [id, name, slug, isoTimeOf(created_at)]);
        printTable(io, ['ID', 'NAME', 'SLUG', 'CREATED'], rows);
      });
      const next = nextCursor(headers);
      if (next !== null) io.err(io.errColors.dim(`more: --cursor ${next}`));
    });
  const send =
    (verb: 'suspend' | 'resume') =>
    async (id: string, texts: { reason?: string; notice?: string }, command: Command): Promise<void> => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ status: string }>(tenantActionPath(id, verb), texts);
      show(body, ({ status }) => io.out(colorStatus(io, status)));
    };
  admin
    .command('suspend <tenant-id>')
    .description('Suspends a tenant: sessions end within a second, sign-ins are refused and no command is dispatched.')
    .option('--reason <text>', 'reason, stored in the journal')
    .option('--notice <text>', 'text for the members of the tenant, which the console shows them')
    .action(send('suspend'));
  admin
    .command('resume <tenant-id>')
    .description('Resumes a suspended tenant.')
    .option('--reason <text>', 'reason, stored in the journal')
    .action(send('resume'));
  admin
    .command('tier <tenant-id> <tier>')
    .description('Sets the tier of a tenant, which determines its request rate limit.')
    .action(async (id: string, tier: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<object>(tenantActionPath(id, 'tier'), { tier }), (body) => printRecord(io, { ...body }));
    });
}

function addFlags(admin: Command, io: Io): void {
  admin
    .command('flags')
    .description('Shows the system flags, or sets one.')
    .argument('[flag]', 'maintenance_mode, registration_lock, commands_disabled or cognition_disabled')
    .addArgument(new Argument('[state]', 'on or off').argParser(parseOnOff))
    .action(async (flag: string | undefined, set: boolean | undefined, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      if (flag !== undefined && set !== undefined) {
        const body = { state: set };
        await api.post(`/v1/admin/flags/${encodeURIComponent(flag)}`, body);
      }
      const { flags } = await api.get<{ flags: Record<string, boolean> }>('/v1/admin/flags');
      if (flag !== undefined && !Object.hasOwn(flags, flag)) throw new UsageError(`unknown flag '${flag}'`);
      const shown = flag === undefined ? flags : { [flag]: flags[flag] as boolean };
      show({ flags: shown }, () => printRecord(io, formatFlags(shown)));
    });
}

const formatFlags = (flags: Record<string, boolean>): Record<string, string> =>
  Object.fromEntries(Object.entries(flags).map(([name, state]) => [name, state ? 'on' : 'off']));

function parseOnOff(text: string): boolean {
  if (/^(on|true)$/.test(text)) return true;
  if (/^(off|false)$/.test(text)) return false;
  throw new InvalidArgumentError('It must be on or off.');
}

const isoTimeOf = ({ _seconds, _nanoseconds }: Tenant['created_at']): string =>
  new Date(_seconds * 1_000 + _nanoseconds / 1_000_000).toISOString();

/** The response body is an array, so the next page is in the `Link` header. */
function nextCursor(headers: Headers): string | null {
  const [, url] = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '') ?? [];
  return url === undefined ? null : (URL.parse(url, 'http://localhost')?.searchParams.get('cursor') ?? null);
}
