import type { CliContext } from './cli-context.ts';
import { FailedError } from './errors.ts';
import { printTable } from './print.ts';
import { fetchShownNames, type ShownNameOf } from './shown-names.ts';

/** The result of a command for many devices for one of them. */
export interface BatchResult {
  device_id: string;
  status?: 'dispatched' | 'rejected' | 'dry_run_required';
  command_id?: string;
  dry_run_token?: string;
  error?: string;
  code?: string;
}

export const BATCH_DESCRIPTION =
  'A critical action is not sent: the commands to confirm it are printed. The exit code is 1 unless all are sent.';

interface BatchDisplay<Body> {
  dryRun?: boolean | undefined;
  /** Prints what stands above the results. */
  printHead?: (body: Body) => void;
}

/** Shows the results with the names of their devices. Throws unless all commands are sent. */
export async function showBatch<Body extends { results: readonly BatchResult[] }>(
  client: CliContext,
  body: Body,
  { dryRun = false, printHead = () => {} }: BatchDisplay<Body> = {},
): Promise<void> {
  const ids = body.results.map(({ device_id }) => device_id);
  const deviceName = await fetchShownNames(client, 'device', ids);
  client.show(body, (shown) => {
    printHead(shown);
    printResults(client, shown.results, deviceName);
  });
  expectAllSent(body.results, dryRun);
}

/** Prints one line for each device, and the commands that confirm those that wait. */
function printResults({ io }: CliContext, results: readonly BatchResult[], deviceName: ShownNameOf): void {
  const rows = results.map(({ device_id, status = 'rejected', command_id, code, error }) => [
    ...[deviceName(device_id), status, command_id, [code, error].filter((text) => text !== undefined).join(': ')],
  ]);
  printTable(io, ['DEVICE', 'STATUS', 'COMMAND', 'REASON'], rows);
  for (const { device_id, dry_run_token } of results) {
    if (dry_run_token !== undefined) io.out(`twinkeep confirm ${device_id} ${dry_run_token}`);
  }
}

/** Throws `FailedError` unless the commands of all devices were sent; with `dryRun`, unless all were accepted. */
function expectAllSent(results: readonly BatchResult[], dryRun = false): void {
  const accepted: BatchResult['status'][] = dryRun ? ['dispatched', 'dry_run_required'] : ['dispatched'];
  const missed = results.filter(({ status = 'rejected' }) => !accepted.includes(status)).length;
  if (missed > 0) throw new FailedError(`not sent to ${missed} of ${results.length} devices`);
}
