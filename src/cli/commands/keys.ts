import type { Command } from 'commander';
import { collectOption, parseDurationS, parseExpiry, parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { formatTime } from '../time-text.ts';

const LISTS = ['homes', 'rooms', 'groups', 'devices', 'categories', 'actions'] as const;

interface Key {
  prefix: string;
  name: string;
  scopes: string[];
  created_at: string;
  last_used_at: string | null;
  expires_at: string | null;
  revoked_at: string | null;
  restrict_to: Restriction | null;
}
/** Lists of ids, of group slugs and of names, as the API has them. */
type Restriction = Partial<Record<(typeof LISTS)[number], string[]>>;
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
    .description('Manages API keys, with which programs act as you. A key is given by prefix or name.');
  keys
    .command('list', { isDefault: true })
    .description('Lists your keys, or as an admin all keys of the tenant, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(
        await api.get<KeyPage>('/v1/auth/api-keys', { limit: String(limit), cursor }),
        ({ keys: page, next_cursor }) => {
          const rows = page.map((key) => [
            ...[key.prefix, key.name, key.scopes.join(' '), restrictionText(key), key.last_used_at, stateOf(io, key)],
          ]);
          printTable(io, ['PREFIX', 'NAME', 'SCOPES', 'RESTRICTED TO', 'LAST USED', 'STATE'], rows);
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
    .option('--home <home>', 'only devices of this home; repeatable, as the following options are', collectOption)
    .option('--room <room>', 'only devices in this room', collectOption)
    .option('--group <group>', 'only devices of this group', collectOption)
    .option('--device <device>', 'only this device', collectOption)
    .option('--category <name>', 'only devices of this category, such as light', collectOption)
    .option('--action <name>', 'only this action, such as turn_on', collectOption)
    .addHelpText(
      'after',
      '\nThe key reaches devices that are in any of the homes, rooms and groups or are named; categories and actions' +
        '\nnarrow that further.' +
        '\n\nExamples:\n  export TWINKEEP_TOKEN=$(twinkeep keys create "Night shift" --scope read:devices)' +
        '\n  twinkeep keys create "Living room lights" --scope "read:*" --scope execute:commands --room "Living room" --category light',
    )
    .action(async (name: string, options: NewKeyOptions, command: Command) => {
      const client = createCliContext(io, command);
      const { scope, expires, group } = options;
      const create = async (groups?: string[]) => {
        const restriction = await restrictionOf(client, options, groups);
        return client.api.post<NewKey>('/v1/auth/api-keys', {
          ...{ name, scopes: scope },
          ...(expires !== undefined && { expires_at: expires }),
          ...(Object.keys(restriction).length > 0 && { restrict_to: restriction }),
        });
      };
      const created = group === undefined ? create() : client.withReferences('group', group, create);
      client.show(await created, printNewKey(io));
    });
  keys
    .command('rotate <key>')
    .description(
      'Replaces a key with a new one of the same name, scopes and restriction; the old key becomes invalid at once, or after --grace.',
    )
    .option('--grace <duration>', 'how long the old key remains valid, such as 1h; at most 24h', parseDurationS, 0)
    .action(async (key: string, { grace }: { grace: number }, command: Command) => {
      const { api, show, withReference } = createCliContext(io, command);
      const rotate = (prefix: string) =>
        api.post<NewKey>('/v1/auth/api-keys/rotate', { prefix, ...(grace > 0 && { grace_s: grace }) });
      show(await withReference('key', prefixOf(key), rotate, { whole: true }), printNewKey(io));
    });
  keys
    .command('revoke <key...>')
    .description('Revokes keys; they become invalid at once.')
    .action(async (all: string[], _options, command: Command) => {
      const { api, show, withReference } = createCliContext(io, command);
      const revoke = (prefix: string) =>
        api.post<{ status: string; prefix: string }>('/v1/auth/api-keys/revoke', { prefix });
      for (const key of new Set(all.map(prefixOf))) {
        show(await withReference('key', key, revoke, { whole: true }), ({ status, prefix }) =>
          io.out(`${prefix} ${status}`),
        );
      }
    });
}

interface NewKeyOptions {
  scope: string[];
  expires?: string;
  home?: string[];
  room?: string[];
  group?: string[];
  device?: string[];
  category?: string[];
  action?: string[];
}

async function restrictionOf(
  { resolveAll }: CliContext,
  { home, room, device, category, action }: NewKeyOptions,
  groups: string[] | undefined,
): Promise<Restriction> {
  return {
    ...(home !== undefined && { homes: await resolveAll('home', home) }),
    ...(room !== undefined && { rooms: await resolveAll('room', room) }),
    ...(groups !== undefined && { groups }),
    ...(device !== undefined && { devices: await resolveAll('device', device) }),
    ...(category !== undefined && { categories: category }),
    ...(action !== undefined && { actions: action }),
  };
}

const restrictionText = ({ restrict_to }: Key): string | null =>
  restrict_to &&
  LISTS.flatMap((list) => {
    const entries = restrict_to[list];
    return entries === undefined ? [] : `${list} ${entries.join(' ')}`;
  }).join(', ');

const printNewKey =
  (io: Io) =>
  ({ key, prefix }: NewKey): void => {
    io.out(key);
    io.err(io.errColors.yellow(`${prefix}: ${SHOWN_ONCE_HINT}`));
  };

/** Accepts a full key instead of its prefix. */
const prefixOf = (text: string): string => /^tw?k_([A-Za-z0-9]{8})_/.exec(text)?.[1] ?? text;

function stateOf(io: Io, { revoked_at, expires_at }: Key): string {
  if (revoked_at !== null) return `revoked ${formatTime(io, revoked_at)}`;
  if (expires_at === null) return 'active';
  return `${Date.parse(expires_at) <= Date.now() ? 'expired' : 'until'} ${formatTime(io, expires_at)}`;
}
