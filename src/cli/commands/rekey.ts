import type { Command } from 'commander';
import type { Api } from '../api.ts';
import { createCliContext } from '../cli-context.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';

interface SealedCount {
  kind: 'device_secrets' | 'stored_answers' | 'command_parameters';
  key: 'current' | 'next' | 'previous' | 'unknown';
  key_id: string;
  sub_key: boolean;
  rows: number;
}

interface MasterKeyIds {
  current: string;
  next: string | null;
  previous: string | null;
}

interface RekeyAnswer {
  master_keys: MasterKeyIds;
  total: number | null;
  examined: number;
  resealed: number;
  unreadable: number;
  values: SealedCount[];
  continue_after: string | null;
  /** Nodes with another current key, or whose keys are not known. */
  other_nodes: { node_id: string; address: string; master_keys: MasterKeyIds | null }[];
  unstored_until: string | null;
}

/** The answers of all requests of one pass. */
type PassResult = Omit<RekeyAnswer, 'continue_after'>;

/** A pass leaves rows that other transactions hold, and does not see those that are inserted behind it. */
const MAX_PASSES = 3;

export function addRekey(program: Command, io: Io): void {
  program
    .command('rekey')
    .summary('encrypt stored secrets with the current master key')
    .description(
      'Encrypts what other master keys encrypted with the current one, in batches, while the service runs. It can be\n' +
        'interrupted and repeated. At the end it reports whether MASTER_KEY_PREVIOUS is still needed, and exits with 1 if so,\n' +
        'or if a node has another MASTER_KEY.',
    )
    .option('--dry-run', 'only count the stored secrets by their key')
    .addHelpText(
      'after',
      '\nExample:\n  twinkeep rekey --token $(twinkeep token --sub operator --scope platform:admin)',
    )
    .action(async ({ dryRun = false }: { dryRun?: boolean }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      let resealed = 0;
      let last: PassResult | null = null;
      for (let passes = 0; !dryRun && passes < MAX_PASSES; passes++) {
        last = await runPass(api, io, false, last);
        resealed += last.resealed;
        if (last.resealed === 0) break;
      }
      const result = { ...(await runPass(api, io, true, last)), resealed };
      show(result, () => report(io, result, dryRun));
      if (!dryRun && staleRows(result.values) > 0) {
        throw new FailedError(
          'not all secrets are encrypted with the current key: see the table, then run rekey again',
        );
      }
      if (!dryRun && result.other_nodes.length > 0) {
        throw new FailedError(
          'nodes may still encrypt with another key: restart them with the current key as MASTER_KEY, then run rekey again',
        );
      }
    });
}

async function runPass(api: Api, io: Io, dryRun: boolean, before: PassResult | null): Promise<PassResult> {
  let after: string | null = null;
  let result: PassResult | null = null;
  do {
    const body: object = { dry_run: dryRun, ...(after !== null && { after }) };
    const { continue_after, ...answer }: RekeyAnswer = await api.post<RekeyAnswer>('/v1/admin/rekey', body);
    checkSameKeys(result ?? before ?? answer, answer);
    result = result === null ? answer : addAnswers(result, answer);
    after = continue_after;
    const { examined, total, resealed } = result;
    io.err(
      io.errColors.dim(`${dryRun ? 'counting' : 'encrypting'}: ${examined} of ${total} rows, ${resealed} changed`),
    );
  } while (after !== null);
  return result;
}

/** Requests may reach processes that were not restarted with the new keys yet. */
function checkSameKeys(one: Pick<RekeyAnswer, 'master_keys'>, other: Pick<RekeyAnswer, 'master_keys'>): void {
  if (one.master_keys.current === other.master_keys.current) return;
  throw new FailedError(
    'processes of the service have different keys as MASTER_KEY: restart all, then run rekey again',
  );
}

function addAnswers(sum: PassResult, answer: Omit<RekeyAnswer, 'continue_after'>): PassResult {
  const values = sum.values.map((value) => ({ ...value }));
  for (const one of answer.values) {
    const same = values.find(
      ({ kind, key_id, sub_key }) => kind === one.kind && key_id === one.key_id && sub_key === one.sub_key,
    );
    if (same === undefined) values.push({ ...one });
    else same.rows += one.rows;
  }
  // Also a node that has ended meanwhile may have added values behind this pass.
  const later = new Set(answer.other_nodes.map(({ node_id }) => node_id));
  return {
    ...sum,
    values,
    examined: sum.examined + answer.examined,
    resealed: sum.resealed + answer.resealed,
    unreadable: sum.unreadable + answer.unreadable,
    other_nodes: [...sum.other_nodes.filter(({ node_id }) => !later.has(node_id)), ...answer.other_nodes],
    unstored_until: answer.unstored_until,
  };
}

const rowsOf = (values: readonly SealedCount[], ...keys: SealedCount['key'][]): number =>
  values.filter(({ key }) => keys.includes(key)).reduce((sum, { rows }) => sum + rows, 0);

/** Values that another key than the current one has encrypted. */
const staleRows = (values: readonly SealedCount[]): number => rowsOf(values, 'next', 'previous', 'unknown');

function report(
  io: Io,
  { values, master_keys: keys, resealed, unreadable, other_nodes, unstored_until }: PassResult,
  dryRun: boolean,
) {
  printTable(
    io,
    ['VALUES', 'KEY', 'KEY ID', 'SUB-KEY', 'ROWS'],
    values.map(({ kind, key, key_id, sub_key, rows }) => [
      kind.replace('_', ' '),
      key,
      key_id,
      sub_key ? 'yes' : 'no',
      rows,
    ]),
  );
  const { yellow, green } = io.errColors;
  if (!dryRun) io.err(`encrypted again: ${resealed}`);
  if (unreadable > 0) io.err(yellow(`secrets that cannot be decrypted with the key that they name: ${unreadable}`));
  const unknown = rowsOf(values, 'unknown');
  if (unknown > 0) io.err(yellow(`secrets whose master key is not configured: ${unknown}`));
  const waiting = values.filter(({ kind, key }) => kind === 'command_parameters' && key !== 'current');
  const parameters = waiting.reduce((sum, { rows }) => sum + rows, 0);
  if (parameters > 0) {
    io.err(
      yellow(`write-only parameters of waiting commands that use another key: ${parameters}`) +
        '. They are not encrypted again: run rekey when these commands and plans have ended.',
    );
  }
  const withMasterKey = values.filter(({ sub_key, key_id }) => !sub_key && key_id !== '');
  const oldForm = withMasterKey.reduce((sum, { rows }) => sum + rows, 0);
  if (oldForm > 0) {
    io.err(
      yellow(`secrets that are encrypted with a master key itself (SUB-KEY no), as by version 1.0.0: ${oldForm}`) +
        '. rekey replaces them when no node of that version is left.',
    );
  }
  for (const { address, master_keys } of other_nodes) {
    const has =
      master_keys === null
        ? 'has not reported its master keys'
        : `has MASTER_KEY ${master_keys.current}, not ${keys.current}`;
    io.err(yellow(`the node ${address} ${has}`));
  }
  if (keys.previous === null) return;
  const previous = rowsOf(values, 'previous');
  if (previous > 0)
    io.err(yellow(`MASTER_KEY_PREVIOUS (${keys.previous}) is still needed: ${previous} secrets use it`));
  else if (other_nodes.length > 0) {
    io.err(yellow(`MASTER_KEY_PREVIOUS (${keys.previous}) is still needed: these nodes may encrypt with it`));
  } else {
    io.err(green(`MASTER_KEY_PREVIOUS (${keys.previous}) is no longer needed for stored secrets.`));
    io.err(`Until ${unstored_until} browser sessions and artifact URLs may use it: without it they end earlier.`);
  }
}
