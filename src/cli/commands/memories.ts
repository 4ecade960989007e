import { Argument, type Command, Option } from 'commander';
import { memoryKinds } from '../../domain/memory.ts';
import type { Api } from '../api.ts';
import { collectOption, parseExpiry, parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { confirmPrompt } from '../confirm-prompt.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { fetchPages } from '../pagination.ts';
import { printTable } from '../print.ts';

interface Memory {
  id: string;
  kind: string;
  subject?: string;
  content: string;
  tags: string[];
  source: string;
  suggestion: boolean;
  adopted_by?: string;
  created_at: string;
  expires_at?: string;
}

interface Filter {
  kind?: string;
  subject?: string;
  tag?: string;
  search?: string;
  suggestions?: true;
  limit: number;
  cursor?: string;
}

interface AddOptions {
  subject?: string;
  tag?: string[];
  expires?: string;
}

const MAX_EXCERPT_LENGTH = 100;

export function addMemories(program: Command, io: Io): void {
  const memories = program
    .command('memories')
    .summary('manage memories of agents')
    .description('Manages memories of agents: observations, preferences and routines of the tenant.');
  memories
    .command('list', { isDefault: true })
    .description('Lists memories, newest first.')
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(memoryKinds))
    .option('--subject <text>', 'only about this subject')
    .option('--tag <tag>', 'only with this tag')
    .option('--search <text>', 'full-text search: all terms, "a phrase", or, -not')
    .option('--suggestions', 'only routines and preferences that no person has adopted')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .addHelpText('after', '\nExample:\n  twinkeep memories --kind preference --search "light -cold"')
    .action(async ({ limit, search, suggestions, ...filter }: Filter, command: Command) => {
      const { api, show } = createCliContext(io, command);
      type Body = { memories: Memory[]; next_cursor: string | null };
      const request = {
        name: 'memories',
        limit,
        query: { ...filter, q: search, suggestion: suggestions && 'true' },
      } as const;
      show(await fetchPages<Body>(api, '/v1/memories', request), ({ memories: found, next_cursor }) => {
        const rows = found.map((one) => [
          ...[one.id, one.kind, one.created_at, one.expires_at, one.source, statusOf(one)],
          ...[one.subject ?? '', one.tags.join(' '), excerpt(one.content)],
        ]);
        printTable(io, ['ID', 'KIND', 'CREATED', 'EXPIRES', 'SOURCE', 'STATUS', 'SUBJECT', 'TAGS', 'CONTENT'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
  memories
    .command('add')
    .description('Adds a memory and prints its id.')
    .addArgument(new Argument('<kind>').choices(memoryKinds))
    .argument('<content>')
    .option('--subject <text>', "subject: a device's id, a room, a person")
    .option('--tag <tag>', 'repeatable', collectOption)
    .option('--expires <time>', 'lifetime such as 30d, or expiry such as 2027-01-01T00:00:00Z', parseExpiry)
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep memories add preference "Warm light in the evening" --subject "living room"',
    )
    .action(async (kind: string, content: string, { subject, tag, expires }: AddOptions, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = {
        ...{ kind, content },
        ...(subject !== undefined && { subject }),
        ...(tag !== undefined && { tags: tag }),
        ...(expires !== undefined && { expires_at: expires }),
      };
      show(await api.post<{ memory: Memory }>('/v1/memories', body), ({ memory }) => io.out(memory.id));
    });
  memories
    .command('adopt <id...>')
    .summary('let suggestions steer goals')
    .description(
      'Adopts routines and preferences that a key or an agent wrote: they steer goals from now on. Requires a user who is signed in; API keys are not accepted.',
    )
    .option('-y, --yes', 'adopt without a prompt')
    .addHelpText('after', '\nExample:\n  twinkeep memories --suggestions\n  twinkeep memories adopt ID')
    .action(async (ids: string[], { yes }: { yes?: boolean }, command: Command) => {
      const { api } = createCliContext(io, command);
      for (const id of new Set(ids)) {
        if (!yes) await requestAdoption(io, await findMemory(api, id));
        await api.post(`/v1/memories/${encodeURIComponent(id)}/adopt`, {});
      }
    });
  memories
    .command('delete <id...>')
    .description('Deletes memories.')
    .action(async (ids: string[], _options, command: Command) => {
      const { api } = createCliContext(io, command);
      for (const id of new Set(ids)) await api.request('DELETE', `/v1/memories/${encodeURIComponent(id)}`);
    });
}

/** Prints the whole text on stderr, and throws unless the user adopts it. */
async function requestAdoption(io: Io, { kind, subject, content, source }: Memory): Promise<void> {
  io.err(`${io.errColors.bold(kind)}${subject === undefined ? '' : ` ${JSON.stringify(subject)}`} by ${source}:`);
  for (const line of content.split('\n')) io.err(`  ${line}`);
  if (!(await confirmPrompt(io, 'Adopt it?'))) throw new FailedError('not adopted');
}

async function findMemory(api: Api, id: string): Promise<Memory> {
  let cursor: string | undefined;
  do {
    type Body = { memories: Memory[]; next_cursor: string | null };
    const page: Body = await api.get('/v1/memories', { limit: '200', cursor });
    const found = page.memories.find((one) => one.id === id.toLowerCase());
    if (found !== undefined) return found;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  throw new FailedError('no such memory');
}

function statusOf({ suggestion, adopted_by }: Memory): string {
  if (suggestion) return 'suggestion';
  return adopted_by === undefined ? '' : `adopted by ${adopted_by}`;
}

/** The first characters of a text, on one line. */
function excerpt(text: string): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  return characters.length > MAX_EXCERPT_LENGTH
    ? `${characters.slice(0, MAX_EXCERPT_LENGTH - 1).join('')}…`
    : characters.join('');
}
