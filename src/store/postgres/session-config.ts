import type pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';

/**
 * Generic plans: planning a turn's statement takes longer than running it for one actor. No sequential scans where there is
 * an index: every statement has one, and a plan made while a table is small outlives its smallness. No JIT: it compiles for
 * longer than any of our statements runs.
 */
export const SESSION_SETTINGS: readonly string[] = [
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'jit=off',
  'default_transaction_isolation=read\\ committed',
];

/**
 * The configuration of a connection to `url`. Parameters of the URL never replace `settings`: `pg` would prefer the URL's.
 * Its `options` are kept and come first, so that those of the service win.
 */
export function sessionConfig(url: string, settings: pg.ClientConfig & { application_name: string }): pg.ClientConfig {
  const given = parseIntoClientConfig(url);
  const options = [given.options, ...SESSION_SETTINGS.map((setting) => `-c ${setting}`)].filter(Boolean).join(' ');
  return { ...given, ...settings, options };
}
