import type pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';

/**
 * Generic plans: planning a batch statement takes longer than running it for one actor. No sequential scans if there is
 * an index: every statement has one, and a plan made for a small table outlives its small size. No JIT: compiling takes
 * longer than any of these statements.
 */
export const SESSION_SETTINGS: readonly string[] = [
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'jit=off',
  'default_transaction_isolation=read\\ committed',
];

/**
 * Configuration of a connection to `url`. Parameters of the URL never replace `settings`, although `pg` would prefer
 * them. The URL's `options` are kept and come first, so that the service's settings win.
 */
export function sessionConfig(url: string, settings: pg.ClientConfig & { application_name: string }): pg.ClientConfig {
  const given = parseIntoClientConfig(url);
  const options = [given.options, ...SESSION_SETTINGS.map((setting) => `-c ${setting}`)].filter(Boolean).join(' ');
  return { ...given, ...settings, options };
}
