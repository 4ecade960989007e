import type { Command } from 'commander';
import type { JsonObject } from '../../domain/values.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, escapeForTerminal, printRecord, printTable } from '../print.ts';
import { consumeStream, type LiveUpdate, openStream } from '../update-stream.ts';

interface Actor {
  kind: string;
  id: string;
  state: string;
  version: number;
  since: string;
  live: boolean;
  mailbox: number;
  quarantined: boolean;
}
interface ActorRecord extends Actor {
  machine_version: number;
  quarantine_reason: string | null;
  context: JsonObject | null;
  next_events: string[];
  timers: { event: string; due_at: string }[];
}
interface JournalEntry {
  version: number;
  at: string;
  by: string;
  event: string;
  from: string | null;
  to: string;
  data: JsonObject | null;
}

interface ListOptions {
  kind?: string;
  state?: string;
  quarantined?: boolean;
  limit: number;
  cursor?: string;
  watch?: boolean;
  count?: number;
}

const actorPath = (kind: string, id: string): string =>
  `/v1/actors/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
const TENANT_OPTION = ['--tenant <tenant-id>', 'as a platform operator: of this tenant'] as const;
type TenantOption = { tenant?: string };

export function addActors(program: Command, io: Io): void {
  const actors = program
    .command('actors')
    .summary('look into what runs')
    .description('Devices, commands, plans and tenants as the running actors that they are. For admins.');
  actors
    .command('list', { isDefault: true })
    .description('Actors, newest first; or, with --watch, what happens to them until Ctrl-C.')
    .option('--kind <kind>', 'device, command, plan or tenant')
    .option('--state <state>', 'a state by its path or the end of it, such as online or administration.active')
    .option('--quarantined', 'only those held back after failing again and again')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .option('--watch', 'print transitions as they happen')
    .option('--count <n>', 'end watching after so many', parseIntegerBetween(1, 1_000_000))
    .option(...TENANT_OPTION)
    .addHelpText('after', '\nExamples:\n  twinkeep actors --quarantined\n  twinkeep actors --watch --kind command')
    .action(async (options: ListOptions & TenantOption, command: Command) => {
      const client = createCliContext(io, command);
      if (options.watch) await watchActors(client, options);
      else await listActors(client, options);
    });
  actors
    .command('show <kind> <id>')
    .description('One actor with its context, what it takes next, and its timers.')
    .option(...TENANT_OPTION)
    .action(async (kind: string, id: string, { tenant: tenant_id }: TenantOption, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ actor: ActorRecord }>(actorPath(kind, id), { tenant_id }), ({ actor }) =>
        showActor(io, actor),
      );
    });
  actors
    .command('journal <kind> <id>')
    .description('What happened to an actor, newest first.')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .option(...TENANT_OPTION)
    .action(
      async (kind: string, id: string, { tenant, limit, cursor }: ListOptions & TenantOption, command: Command) => {
        const { api, show } = createCliContext(io, command);
        const query = { limit: String(limit), cursor, tenant_id: tenant };
        const body = await api.get<{ entries: JournalEntry[]; next_cursor: string | null }>(
          `${actorPath(kind, id)}/journal`,
          query,
        );
        show(body, ({ entries, next_cursor }) => {
          const rows = entries.map(({ version, at, by, event, to, data }) => [
            ...[version, at, event, to, by, data === null ? null : escapeForTerminal(JSON.stringify(data))],
          ]);
          printTable(io, ['VERSION', 'AT', 'EVENT', 'TO', 'BY', 'DATA'], rows);
          printNextCursor(io, next_cursor);
        });
      },
    );
  actors
    .command('release <kind> <id>')
    .description('Ends the quarantine of an actor.')
    .option(...TENANT_OPTION)
    .action(async (kind: string, id: string, { tenant }: TenantOption, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const query = tenant === undefined ? '' : `?${new URLSearchParams({ tenant_id: tenant })}`;
      show(await api.post<{ status: string }>(`${actorPath(kind, id)}/release${query}`), ({ status }) =>
        io.out(status),
      );
    });
  actors
    .command('machines [kind]')
    .description('The machines that actors follow; one of them as a page of Markdown with its diagram.')
    .action(async (kind: string | undefined, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      if (kind !== undefined) {
        const body = await api.get<{ machine: { page: string } }>(`/v1/machines/${encodeURIComponent(kind)}`);
        return show(body, ({ machine }) => io.out(machine.page.trimEnd()));
      }
      const body = await api.get<{ machines: { kind: string; version: number; description: string }[] }>(
        '/v1/machines',
      );
      show(body, ({ machines }) => {
        const rows = machines.map(({ kind, version, description }) => [kind, version, description]);
        printTable(io, ['KIND', 'VERSION', 'WHAT IT IS'], rows);
      });
    });
}

async function listActors(
  { io, api, show }: CliContext,
  { kind, state, quarantined, limit, cursor, tenant }: ListOptions & TenantOption,
) {
  const query = { kind, state, cursor, tenant_id: tenant, ...(quarantined && { quarantined: 'true' }) };
  type Body = { actors: Actor[]; next_cursor: string | null };
  show(await fetchPages<Body>(api, '/v1/actors', { name: 'actors', limit, query }), ({ actors, next_cursor }) => {
    const rows = actors.map((actor) => [
      ...[actor.kind, actor.id, actor.state, actor.version, actor.since],
      ...[actor.quarantined ? 'quarantined' : actor.live ? 'live' : 'at rest', actor.mailbox || null],
    ]);
    printTable(io, ['KIND', 'ID', 'STATE', 'VERSION', 'SINCE', 'IS', 'WAITING'], rows);
    printNextCursor(io, next_cursor);
  });
}

async function watchActors(
  { io, api, show }: CliContext,
  { kind, tenant, count }: ListOptions & TenantOption,
): Promise<void> {
  const query = new URLSearchParams({ ...(kind && { kind }), ...(tenant && { tenant_id: tenant }) });
  await consumeStream(
    (hear) => openStream(api, '/ws/actors', query, hear),
    (update) => show(update, () => io.out(formatTransition(io, update))),
    count,
  );
}

function formatTransition(io: Io, { kind, id, from, to, event, at }: LiveUpdate): string {
  const { dim } = io.outColors;
  const change = from === to ? `${to}` : `${from ?? 'new'} → ${to}`;
  return `${dim(new Date(Number(at)).toISOString().slice(11, 23))} ${kind} ${id} ${event} ${dim(change)}`;
}

function showActor(
  io: Io,
  { context, timers, next_events, quarantined, quarantine_reason, ...rest }: ActorRecord,
): void {
  printRecord(io, { ...rest, ...(quarantined && { quarantined: colorStatus(io, 'quarantined') }), quarantine_reason });
  printRecord(io, { next_events: next_events.join(', ') });
  for (const { event, due_at } of timers) io.out(`${due_at}  ${event}`);
  for (const line of JSON.stringify(context, null, 2).split('\n')) io.out(escapeForTerminal(line));
}

function printNextCursor(io: Io, next: string | null): void {
  if (next !== null) io.err(io.errColors.dim(`more: --cursor ${next}`));
}
