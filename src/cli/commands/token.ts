import type { Command } from 'commander';
import { readTokenKey } from '../../config.ts';
import { isScope } from '../../domain/scopes.ts';
import { collectOption, parseDurationS } from '../argument-parsers.ts';
import { UsageError } from '../errors.ts';
import type { Io } from '../io.ts';

const MAX_TTL_S = 86_400;
const PLATFORM_SCOPE = 'platform:admin';

const NO_KEY_ADVICE =
  'no service has started with this DATA_DIR. Set DATA_DIR to the folder of the service, or create a key with --new-key';

interface TokenOptions {
  sub: string;
  email?: string;
  scope?: string[];
  /** Seconds. */
  ttl: number;
  newKey?: boolean;
}

export function addToken(program: Command, io: Io): void {
  program
    .command('token')
    .summary('sign a token for a user with the key of the service')
    .description(
      'Signs an internal token with the key in DATA_DIR or TOKEN_SIGNING_KEY and prints only the token on stdout.\n' +
        'It needs no database, so it works while a service with the same key is running.',
    )
    .requiredOption('--sub <subject>', 'subject of the token; a new subject becomes a user')
    .option('--email <address>', 'email address, treated as verified')
    .option('--scope <scope>', 'such as platform:admin or read:devices; repeatable', collectOption)
    .option('--ttl <time>', 'lifetime, at most 24h', parseDurationS, 3_600)
    .option('--new-key', 'create the key if DATA_DIR has none, before the first start of its service')
    .addHelpText('after', '\nExample:\n  export TWINKEEP_TOKEN=$(twinkeep token --sub me)')
    .action(async ({ sub, email, scope, ttl, newKey }: TokenOptions) => {
      if (ttl > MAX_TTL_S) throw new UsageError('--ttl must be at most 24h');
      for (const [option, text] of Object.entries({ sub, email })) {
        if (text !== undefined && !/^\P{C}{1,255}$/u.test(text)) {
          throw new UsageError(`--${option} must be 1 to 255 characters without control characters`);
        }
      }
      // The service ignores unknown scopes: the token would grant less than intended.
      const unknown = scope?.flatMap((text) => text.split(' ')).find((one) => one !== PLATFORM_SCOPE && !isScope(one));
      if (unknown !== undefined) throw new UsageError(`unknown --scope ${JSON.stringify(unknown)}`);
      const key = readTokenKey(undefined, newKey ? { create: true } : { create: false, advice: NO_KEY_ADVICE });
      const { issueToken } = await import('../../main.ts');
      io.out(
        await issueToken(key, {
          sub,
          ttlS: ttl,
          ...(email !== undefined && { email }),
          ...(scope !== undefined && { scope: scope.join(' ') }),
        }),
      );
    });
}
