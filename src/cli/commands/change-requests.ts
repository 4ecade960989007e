import type { Command } from 'commander';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { confirmPrompt } from '../confirm-prompt.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { colorStatus, printRecord, printTable } from '../print.ts';
import { type RequesterFields, requesterText } from '../requester-text.ts';
import { fetchShownNames, type ShownNameOf } from '../shown-names.ts';
import { escapeForTerminal } from '../terminal-text.ts';
import { formatTime } from '../time-text.ts';

/** Response to a change that has to be confirmed. */
export interface ChangeDryRun {
  status: 'dry_run_required';
  reason: string;
  dry_run_token: string;
  expires_at: string;
  change_id: string;
  preview: { weaker: string[] };
}

export const isChangeDryRun = (body: object): body is ChangeDryRun => 'dry_run_token' in body && 'change_id' in body;

interface ChangeRequest extends RequesterFields {
  id: string;
  operation: string;
  subject: string;
  status: string;
  reason: string;
  weaker: string[];
  requested_at: string;
  expires_at: string;
}
interface Page {
  changes: ChangeRequest[];
  next_cursor: string | null;
}

const changePath = (id: string, rest = ''): string => `/v1/change-requests/${encodeURIComponent(id)}${rest}`;

const DEVICE_SUBJECT = 'device:';

/** The id of the device that a change is about; null if it is about something else. */
const deviceOf = ({ subject }: Pick<ChangeRequest, 'subject'>): string | null =>
  subject.startsWith(DEVICE_SUBJECT) ? subject.slice(DEVICE_SUBJECT.length) : null;

function subjectText(change: Pick<ChangeRequest, 'subject'>, deviceName: ShownNameOf): string {
  const device = deviceOf(change);
  return device === null ? change.subject : `${DEVICE_SUBJECT}${deviceName(device)}`;
}

export function showChangeDryRun(io: Io, { reason, preview, change_id, expires_at }: ChangeDryRun): void {
  io.out(`${io.outColors.yellow('not applied')}: ${reason}`);
  for (const sentence of preview.weaker) io.out(`  ${escapeForTerminal(sentence)}`);
  io.out(`confirm until ${formatTime(io, expires_at)}:`);
  io.out(`  twinkeep changes approve ${change_id}`);
}

export function addChangeRequests(program: Command, io: Io): void {
  const changes = program
    .command('changes')
    .summary('confirm or refuse changes that wait for a confirmation')
    .description(
      'Lists, confirms and refuses changes that wait for a confirmation, such as a lower safety class or a new device\n' +
        "key. The tenant's safety policy determines which users may confirm; a manifest is confirmed by a person.",
    );
  changes
    .command('list', { isDefault: true })
    .description('Lists changes that wait for a confirmation, newest first.')
    .option('--all', 'also those that were applied or refused, or have expired')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ all, limit, cursor }: { all?: boolean; limit: number; cursor?: string }, command: Command) => {
      const client = createCliContext(io, command);
      const query = { limit: String(limit), cursor, ...(!all && { waiting: 'true' }) };
      const body = await client.api.get<Page>('/v1/change-requests', query);
      const deviceName = await fetchShownNames(client, 'device', body.changes.map(deviceOf));
      client.show(body, (page) => {
        printTable(
          io,
          ['CHANGE', 'OPERATION', 'SUBJECT', 'STATUS', 'EXPIRES', 'EFFECT'],
          page.changes.map((one) => [
            ...[one.id, one.operation, subjectText(one, deviceName), one.status, one.expires_at],
            escapeForTerminal(one.weaker.join(' ')),
          ]),
        );
        if (page.next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${page.next_cursor}`));
      });
    });
  changes
    .command('get <change-id>')
    .description('Shows a change with its effect.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ change: ChangeRequest }>(changePath(id)), ({ change }) => {
        const { weaker, requested_with: _, ...members } = change;
        printRecord(io, { ...members, requested_by: requesterText(change) });
        for (const sentence of weaker) io.out(`  ${escapeForTerminal(sentence)}`);
      });
    });
  addDecisions(changes, io);
}

interface Applied {
  status: string;
  result?: { new_secret?: string | null };
}

/** A new secret of a device is in no other answer. */
function showApplied(io: Io, { status, result }: Applied): void {
  io.out(colorStatus(io, status));
  const secret = result?.new_secret ?? null;
  if (secret === null) return;
  printRecord(io, { new_secret: secret });
  io.err(io.errColors.yellow('new_secret: It is shown only once: store it on the device.'));
}

function addDecisions(changes: Command, io: Io): void {
  changes
    .command('approve <change-id>')
    .description('Shows the effect of a change, prompts for approval, and applies it.')
    .option('-y, --yes', 'approve without a prompt')
    .action(async (id: string, { yes }: { yes?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      if (!yes) await requestApproval(client, id);
      client.show(await client.api.post<Applied>(changePath(id, '/approve')), (applied) => showApplied(io, applied));
    });
  changes
    .command('confirm <change-id> <dry-run-token>')
    .description('Applies a change with the token of its dry run.')
    .action(async (id: string, token: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<Applied>(changePath(id, '/confirm'), { dry_run_token: token });
      show(body, (applied) => showApplied(io, applied));
    });
  changes
    .command('refuse <change-id>')
    .description('Refuses a change: it is not applied.')
    .option('--reason <text>', 'reason, stored with the change')
    .action(async (id: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ status: string }>(
        changePath(id, '/refuse'),
        reason === undefined ? {} : { reason },
      );
      show(body, ({ status }) => io.out(colorStatus(io, status)));
    });
}

/** Prints the effect of the change on stderr, and throws unless the user approves. */
async function requestApproval({ api, io }: CliContext, id: string): Promise<void> {
  const { change } = await api.get<{ change: ChangeRequest }>(changePath(id));
  if (change.status !== 'awaiting_confirmation')
    throw new FailedError(`the change is ${change.status}, not awaiting confirmation`);
  io.err(`${io.errColors.bold(change.operation)} of ${io.errColors.bold(change.subject)}:`);
  for (const sentence of change.weaker) io.err(`  ${escapeForTerminal(sentence)}`);
  const { requested_at, expires_at } = change;
  const times = `at ${formatTime(io, requested_at, 'stderr')}; expires at ${formatTime(io, expires_at, 'stderr')}`;
  io.err(io.errColors.dim(`  Requested by ${requesterText(change)} ${times}.`));
  if (!(await confirmPrompt(io, 'Apply it?'))) throw new FailedError('not approved; the change is still pending');
}
