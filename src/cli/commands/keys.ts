import type { Command } from 'commander';
import { collectOption, parseExpiry, parseIntegerBetween } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';

interface Key {
  prefix: string;
  name: string;
  scopes: string[];
  created_at: string;
  last_used_at: string | null;
  expires_at: string | null;
  revoked_at: string | null;
}
interface KeyPage {
  keys: Key[];
  next_cursor: string | null;
}
interface NewKey {
  key: string;
  prefix: string;
  name: string;
}

const SHOWN_ONCE_HINT = 'It is shown this once.';

export function addKeys(program: Command, io: Io): void {
  const keys = program.command('keys').summary('API keys for programs').description('API keys: they act as you.');
  keys
    .command('list', { isDefault: true })
    .description('Your keys, and as an admin everybody’s, newest first.')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'go on where the page before ended')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(
        await api.get<KeyPage>('/v1/auth/api-keys', { limit: String(limit), cursor }),
        ({ keys: page, next_cursor }) => {
          const rows = page.map((key) => [
            key.prefix,
            key.name,
            key.scopes.join(' ') || 'all',
            key.last_used_at,
            stateOf(key),
          ]);
          printTable(io, ['PREFIX', 'NAME', 'SCOPES', 'LAST USED', 'STATE'], rows);
          if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
        },
      );
    });
  keys
    .command('create <name>')
    .description('Makes a key and prints it, alone, on stdout.')
    .option(
      '--scope <verb:resource>',
      'such as read:devices; may be repeated; without any: all that your role allows',
      collectOption,
    )
    .option('--expires <time>', 'how long it lives, such as 30d, or until when (2027-01-01T00:00:00Z)', parseExpiry)
    .addHelpText(
      'after',
      '\nExample:\n  export TWINKEEP_TOKEN=$(twinkeep keys create "Night shift" --scope read:devices)',
    )
    .action(async (name: string, { scope, expires }: { scope?: string[]; expires?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = { name, ...(scope && { scopes: scope }), ...(expires !== undefined && { expires_at: expires }) };
      show(await api.post<NewKey>('/v1/auth/api-keys', body), printNewKey(io));
    });
  keys
    .command('rotate <prefix>')
    .description('Replaces a key by a new one with the same name and scopes; the old one is dead at once.')
    .action(async (prefix: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<NewKey>('/v1/auth/api-keys/rotate', { prefix: prefixOf(prefix) }), printNewKey(io));
    });
  keys
    .command('revoke <prefix...>')
    .description('Ends keys at once.')
    .action(async (prefixes: string[], _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      for (const prefix of new Set(prefixes.map(prefixOf))) {
        const body = await api.post<{ status: string; prefix: string }>('/v1/auth/api-keys/revoke', { prefix });
        show(body, ({ status }) => io.out(`${prefix} ${status}`));
      }
    });
}

const printNewKey =
  (io: Io) =>
  ({ key, prefix }: NewKey): void => {
    io.out(key);
    io.err(io.errColors.yellow(`${prefix}: ${SHOWN_ONCE_HINT}`));
  };

/** Who has nothing but the key itself may name it by that. */
const prefixOf = (text: string): string => /^tk_([A-Za-z0-9]{8})_/.exec(text)?.[1] ?? text;

function stateOf({ revoked_at, expires_at }: Key): string {
  if (revoked_at !== null) return `revoked ${revoked_at}`;
  if (expires_at === null) return 'active';
  return Date.parse(expires_at) <= Date.now() ? `expired ${expires_at}` : `until ${expires_at}`;
}
