import type { Command } from 'commander';
import type { JsonObject } from '../../domain/values.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, printRecord, printTable } from '../print.ts';
import { consumeStream } from '../stream-consumption.ts';
import { formatTime, formatTimeOfDay } from '../time-text.ts';
import { type LiveUpdate, openStream } from '../update-stream.ts';

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

/** The path of an actor. A device or a plan of your own tenant can be given by its name. */
async function actorPath(
  { resolve }: CliContext,
  kind: string,
  id: string,
  tenant: string | undefined,
): Promise<string> {
  const hasName = (kind === 'device' || kind === 'plan') && tenant === undefined;
  return `/v1/actors/${encodeURIComponent(kind)}/${encodeURIComponent(hasName ? await resolve(kind, id) : id)}`;
}
const TENANT_OPTION = ['--tenant <tenant-id>', 'in this tenant (platform operators only)'] as const;
type TenantOption = { tenant?: string };

export function addActors(program: Command, io: Io): void {
  const actors = program
    .command('actors')
    .summary('inspect actors')
    .description('Inspects the actors of devices, commands, plans and tenants. For admins.');
  actors
    .command('list', { isDefault: true })
    .description('Lists actors, newest first. With --watch, prints their transitions until Ctrl-C.')
    .option('--kind <kind>', 'device, command, plan or tenant')
    .option('--state <state>', 'state path or its end, such as online or administration.active')
    .option('--quarantined', 'only quarantined actors')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .option('--watch', 'print transitions as they happen')
    .option('--count <n>', 'stop watching after this many transitions', parseIntegerBetween(1, 1_000_000))
    .option(...TENANT_OPTION)
    .addHelpText('after', '\nExamples:\n  twinkeep actors --quarantined\n  twinkeep actors --watch --kind command')
    .action(async (options: ListOptions & TenantOption, command: Command) => {
      const client = createCliContext(io, command);
      if (options.watch) await watchActors(client, options);
      else await listActors(client, options);
    });
  actors
    .command('show <kind> <id>')
    .description('Shows an actor with its context, accepted events and timers.')
    .option(...TENANT_OPTION)
    .action(async (kind: string, id: string, { tenant: tenant_id }: TenantOption, command: Command) => {
      const client = createCliContext(io, command);
      const path = await actorPath(client, kind, id, tenant_id);
      client.show(await client.api.get<{ actor: ActorRecord }>(path, { tenant_id }), ({ actor }) =>
        showActor(io, actor),
      );
    });
  actors
    .command('journal <kind> <id>')
    .description('Lists the journal of an actor, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .option(...TENANT_OPTION)
    .action(
      async (kind: string, id: string, { tenant, limit, cursor }: ListOptions & TenantOption, command: Command) => {
        const client = createCliContext(io, command);
        const { api, show } = client;
        const query = { limit: String(limit), cursor, tenant_id: tenant };
        const path = `${await actorPath(client, kind, id, tenant)}/journal`;
        const body = await api.get<{ entries: JournalEntry[]; next_cursor: string | null }>(path, query);
        show(body, ({ entries, next_cursor }) => {
          const rows = entries.map(({ version, at, by, event, to, data }) => [
            ...[version, at, event, to, by, data === null ? null : JSON.stringify(data)],
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
      const client = createCliContext(io, command);
      const query = tenant === undefined ? '' : `?${new URLSearchParams({ tenant_id: tenant })}`;
      const path = `${await actorPath(client, kind, id, tenant)}/release${query}`;
      client.show(await client.api.post<{ status: string }>(path), ({ status }) => io.out(status));
    });
  actors
    .command('machines [kind]')
    .description('Lists state machines, or prints one as Markdown with a diagram.')
    .action(async (kind: string | undefined, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      if (kind !== undefined) {
        const body = await api.get<{ machine: { page: string } }>(`/v1/machines/${encodeURIComponent(kind)}`);
        return show(body, ({ machine }) => {
          for (const line of machine.page.trimEnd().split('\n')) io.out(line);
        });
      }
      const body = await api.get<{ machines: { kind: string; version: number; description: string }[] }>(
        '/v1/machines',
      );
      show(body, ({ machines }) => {
        const rows = machines.map(({ kind, version, description }) => [kind, version, description]);
        printTable(io, ['KIND', 'VERSION', 'DESCRIPTION'], rows);
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
      ...[actor.quarantined ? 'quarantined' : actor.live ? 'live' : 'passivated', actor.mailbox || null],
    ]);
    printTable(io, ['KIND', 'ID', 'STATE', 'VERSION', 'SINCE', 'ACTIVITY', 'QUEUED'], rows);
    printNextCursor(io, next_cursor);
  });
}

async function watchActors(
  { io, api, show }: CliContext,
  { kind, tenant, count }: ListOptions & TenantOption,
): Promise<void> {
  const query = new URLSearchParams({ ...(kind && { kind }), ...(tenant && { tenant_id: tenant }) });
  await consumeStream(
    io,
    kind === undefined ? 'transitions of all actors' : `transitions of actors of the kind ${kind}`,
    (onUpdate) => openStream(api, '/ws/actors', query, onUpdate),
    (update) => show(update, () => io.out(formatTransition(io, update))),
    count,
  );
}

function formatTransition(io: Io, { kind, id, from, to, event, at }: LiveUpdate): string {
  const { dim } = io.outColors;
  const change = from === to ? `${to}` : `${from ?? 'new'} → ${to}`;
  return `${dim(formatTimeOfDay(io, Number(at)))} ${kind} ${id} ${event} ${dim(change)}`;
}

function showActor(
  io: Io,
  { context, timers, next_events, quarantined, quarantine_reason, ...rest }: ActorRecord,
): void {
  printRecord(io, { ...rest, ...(quarantined && { quarantined: colorStatus(io, 'quarantined') }), quarantine_reason });
  printRecord(io, { next_events: next_events.join(', ') });
  for (const { event, due_at } of timers) io.out(`${formatTime(io, due_at)}  ${event}`);
  for (const line of JSON.stringify(context, null, 2).split('\n')) io.out(line);
}

function printNextCursor(io: Io, next: string | null): void {
  if (next !== null) io.err(io.errColors.dim(`more: --cursor ${next}`));
}
