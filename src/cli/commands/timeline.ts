import { type Command, InvalidArgumentError } from 'commander';
import { collectOption, parseIntegerBetween, parsePast } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { printTable } from '../print.ts';
import { type RequesterFields, requesterText } from '../requester-text.ts';
import { fetchShownNames, type ShownNameOf } from '../shown-names.ts';

const kinds = ['presence', 'command', 'plan', 'confirmation', 'refusal', 'firmware'];

function collectKind(text: string, previous: string[] | undefined): string[] {
  if (!kinds.includes(text)) throw new InvalidArgumentError(`It must be one of: ${kinds.join(', ')}.`);
  return collectOption(text, previous);
}

interface Entry {
  at: string;
  kind: string;
  text: string;
  device_id: string;
  device_name: string | null;
  by: string | null;
  credential: RequesterFields['requested_with'] | null;
}

interface Page {
  entries: Entry[];
  left_out: string[];
  devices_left_out: number;
  next_cursor: string | null;
}

interface Options {
  home?: string;
  room?: string;
  since?: string;
  until?: string;
  kind?: string[];
  limit: number;
  cursor?: string;
}

export function addTimeline(program: Command, io: Io): void {
  program
    .command('timeline [device]')
    .summary('list what happened to a device, a home or a room')
    .description(
      'Lists what happened to a device, or to the devices that are in a home or room now, newest first:\n' +
        'presence, commands, steps of plans, confirmations, refusals and firmware.',
    )
    .option('--home <home>', 'of a home instead of a device')
    .option('--room <room>', 'of a room; a room without --home is found by its name or id in any home')
    .option('--since <time>', 'only since this time, or for this long, such as 24h', parsePast)
    .option('--until <time>', 'only before this time, or before so long ago', parsePast)
    .option('--kind <kind>', `only this kind; repeatable: ${kinds.join(', ')}`, collectKind)
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 1_000), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .addHelpText('after', '\nExample:\n  twinkeep timeline "Front door" --since 24h --kind confirmation --kind refusal')
    .action(async (device: string | undefined, options: Options, command: Command) => {
      const client = createCliContext(io, command);
      const { since, until, kind, limit, cursor } = options;
      const path = await timelinePath(client, device, options);
      const query = { from: since, to: until, kind, cursor };
      const body = await fetchPages<Page>(client.api, path, { name: 'entries', limit, query });
      const users = body.entries.map(({ by }) => by);
      const userName = await fetchShownNames(client, 'member', users);
      client.show(body, (page) => printTimeline(io, page, { ofPlace: device === undefined, since, until, userName }));
    });
}

async function timelinePath(
  { resolve, resolveOption, resolveRoom }: CliContext,
  device: string | undefined,
  { home, room }: Options,
): Promise<string> {
  if ((device === undefined) === (home === undefined && room === undefined))
    throw new UsageError('give a device, or --home or --room');
  if (device !== undefined) return `/v1/devices/${encodeURIComponent(await resolve('device', device))}/timeline`;
  const homeId = await resolveOption('home', home);
  if (room === undefined) return `/v1/homes/${encodeURIComponent(homeId ?? '')}/timeline`;
  const found = await resolveRoom(room, homeId);
  return `/v1/homes/${encodeURIComponent(found.homeId)}/rooms/${encodeURIComponent(found.id)}/timeline`;
}

interface Shown {
  ofPlace: boolean;
  since: string | undefined;
  until: string | undefined;
  userName: ShownNameOf;
}

function printTimeline(io: Io, page: Page, { ofPlace, since, until, userName }: Shown): void {
  const { entries, left_out, devices_left_out, next_cursor } = page;
  const rows = entries.map(({ at, kind, text, device_id, device_name, by, credential }) => [
    ...[at, kind, ...(ofPlace ? [device_name ?? device_id] : []), text],
    by === null
      ? null
      : requesterText({ requested_by: by, ...(credential && { requested_with: credential }) }, userName),
  ]);
  printTable(io, ['AT', 'KIND', ...(ofPlace ? ['DEVICE'] : []), 'EVENT', 'BY'], rows);
  // A cursor belongs to its range: a duration would mean another one at the next run.
  const times = [
    ...(since === undefined ? [] : [`--since ${since}`]),
    ...(until === undefined ? [] : [`--until ${until}`]),
  ];
  const notes = [
    ...(left_out.length === 0 ? [] : [`left out, because you may not read them: ${left_out.join(', ')}`]),
    ...(devices_left_out === 0 ? [] : [`${devices_left_out} older devices are left out`]),
    ...(next_cursor === null ? [] : [`more: ${[...times, `--cursor ${next_cursor}`].join(' ')}`]),
  ];
  for (const note of notes) io.err(io.errColors.dim(note));
}
