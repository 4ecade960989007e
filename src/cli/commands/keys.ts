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

const SHOWN_ONCE_HINT = 'It is shown only once.';

export function addKeys(program: Command, io: Io): void {
  const keys = program
    .command('keys')
    .summary('manage API keys')
    .description('Manages API keys, with which programs act as you.');
  keys
    .command('list', { isDefault: true })
    .description('Lists your keys, or as an admin all keys of the tenant, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 50)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(
        await api.get<KeyPage>('/v1/auth/api-keys', { limit: String(limit), cursor }),
        ({ keys: page, next_cursor }) => {
          const rows = page.map((key) => [key.prefix, key.name, key.scopes.join(' '), key.last_used_at, stateOf(key)]);
          printTable(io, ['PREFIX', 'NAME', 'SCOPES', 'LAST USED', 'STATE'], rows);
          if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
        },
      );
    });
  keys
    .command('create <name>')
    .description('Creates a key and prints only the key on stdout.')
    .requiredOption(
      '--scope <verb:resource>',
      'such as read:devices; repeatable; all for everything that your role allows',
      collectOption,
    )
    .option('--expires <time>', 'lifetime such as 30d, or expiry such as 2027-01-01T00:00:00Z', parseExpiry)
    .addHelpText(
      'after',
      '\nExample:\n  export TWINKEEP_TOKEN=$(twinkeep keys create "Night shift" --scope read:devices)',
    )
    .action(async (name: string, { scope, expires }: { scope: string[]; expires?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = { name, scopes: scope, ...(expires !== undefined && { expires_at: expires }) };
      show(await api.post<NewKey>('/v1/auth/api-keys', body), printNewKey(io));
    });
  keys
    .command('rotate <prefix>')
    .description('Replaces a key with a new one of the same name and scopes; the old key becomes invalid at once.')
    .action(async (prefix: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.post<NewKey>('/v1/auth/api-keys/rotate', { prefix: prefixOf(prefix) }), printNewKey(io));
    });
  keys
    .command('revoke <prefix...>')
    .description('Revokes keys; they become invalid at once.')
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

/** Accepts a full key instead of its prefix. */
const prefixOf = (text: string): string => /^tw?k_([A-Za-z0-9]{8})_/.exec(text)?.[1] ?? text;

function stateOf({ revoked_at, expires_at }: Key): string {
  if (revoked_at !== null) return `revoked ${revoked_at}`;
  if (expires_at === null) return 'active';
  return Date.parse(expires_at) <= Date.now() ? `expired ${expires_at}` : `until ${expires_at}`;
}
