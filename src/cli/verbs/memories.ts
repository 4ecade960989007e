import { Argument, type Command, Option } from 'commander';
import { memoryKinds } from '../../domain/memory.ts';
import { collect, end, whole } from '../arguments.ts';
import { clientOf } from '../client.ts';
import type { Io } from '../io.ts';
import { gather } from '../pages.ts';
import { plain, table } from '../print.ts';

interface Memory {
  id: string;
  kind: string;
  subject?: string;
  content: string;
  tags: string[];
  source: string;
  created_at: string;
  expires_at?: string;
}

interface Filter {
  kind?: string;
  subject?: string;
  tag?: string;
  search?: string;
  limit: number;
  cursor?: string;
}

interface Given {
  subject?: string;
  tag?: string[];
  expires?: string;
}

const SHOWN = 100;

export function addMemories(program: Command, io: Io): void {
  const memories = program
    .command('memories')
    .summary('what agents remember')
    .description('What agents remember of the tenant: observations, preferences and routines.');
  memories
    .command('list', { isDefault: true })
    .description('Memories, newest first.')
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(memoryKinds))
    .option('--subject <text>', 'only about this')
    .option('--tag <tag>', 'only with this tag')
    .option('--search <text>', 'full text: all of the words, "a phrase", or, -not')
    .option('--limit <n>', 'at most so many', whole(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .addHelpText('after', '\nExample:\n  twinkeep memories --kind preference --search "light -cold"')
    .action(async ({ limit, search, ...filter }: Filter, command: Command) => {
      const { api, show } = clientOf(io, command);
      type Body = { memories: Memory[]; next_cursor: string | null };
      const asked = { name: 'memories', limit, query: { ...filter, q: search } } as const;
      show(await gather<Body>(api, '/v1/memories', asked), ({ memories: found, next_cursor }) => {
        const rows = found.map(({ id, kind, subject = '', content, tags, source, created_at, expires_at }) => [
          ...[id, kind, created_at, expires_at, source, plain(subject), plain(tags.join(' ')), line(content)],
        ]);
        table(io, ['ID', 'KIND', 'CREATED', 'UNTIL', 'SOURCE', 'SUBJECT', 'TAGS', 'CONTENT'], rows);
        if (next_cursor !== null) io.say(io.paintSay.dim(`more: --cursor ${next_cursor}`));
      });
    });
  memories
    .command('add')
    .description('Remembers a text and prints its id.')
    .addArgument(new Argument('<kind>').choices(memoryKinds))
    .argument('<content>')
    .option('--subject <text>', "what it is about: a device's id, a room, a person")
    .option('--tag <tag>', 'may be repeated', collect)
    .option('--expires <time>', 'how long it is kept, such as 30d, or until when (2027-01-01T00:00:00Z)', end)
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep memories add preference "Warm light in the evening" --subject "living room"',
    )
    .action(async (kind: string, content: string, { subject, tag, expires }: Given, command: Command) => {
      const { api, show } = clientOf(io, command);
      const body = {
        ...{ kind, content },
        ...(subject !== undefined && { subject }),
        ...(tag !== undefined && { tags: tag }),
        ...(expires !== undefined && { expires_at: expires }),
      };
      show(await api.post<{ memory: Memory }>('/v1/memories', body), ({ memory }) => io.out(memory.id));
    });
  memories
    .command('delete <id...>')
    .description('Forgets memories.')
    .action(async (ids: string[], _options, command: Command) => {
      const { api } = clientOf(io, command);
      for (const id of new Set(ids)) await api.ask('DELETE', `/v1/memories/${encodeURIComponent(id)}`);
    });
}

/** The beginning of a text, on one line. */
function line(text: string): string {
  const whole = [...text.replace(/\s+/g, ' ').trim()];
  return plain(whole.length > SHOWN ? `${whole.slice(0, SHOWN - 1).join('')}…` : whole.join(''));
}
