import type { Command } from 'commander';
import type { Preview } from '../../domain/twin.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { Api } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { confirmPrompt } from '../confirm-prompt.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { colorStatus, formatPreview, printTable } from '../print.ts';
import { type RequesterFields, requesterText } from '../requester-text.ts';
import { fetchShownNames } from '../shown-names.ts';
import { escapeForTerminal, makeColors } from '../terminal-text.ts';
import { formatTime } from '../time-text.ts';
import { type CommandRecord, postConfirmation, showDispatched, WAIT_DESCRIPTION } from './device-commands.ts';

interface Confirmation extends RequesterFields {
  command_id: string;
  device_id: string;
  action: string;
  params: JsonObject;
  reason: string;
  preview: Preview;
  preview_hash: string;
  requested_at: string;
  expires_at: string;
  plan_id?: string;
  memories?: { id: string; kind: string; subject?: string; source: string; adopted_by?: string }[];
  compensation?: { action: string; params: JsonObject };
}
interface Page {
  confirmations: Confirmation[];
  next_cursor: string | null;
}

/** Table columns are measured by text length, so their cells must not contain colour codes. */
const noColours = makeColors(false);
/** The name that the confirmation covers. */
const previewedName = ({ preview }: Pick<Confirmation, 'preview'>): string | null => preview.device?.name ?? null;

const confirmationPath = (commandId: string, verb: string): string =>
  `/v1/confirmations/${encodeURIComponent(commandId)}/${verb}`;

export function addConfirmations(program: Command, io: Io): void {
  const confirmations = program
    .command('confirmations')
    .summary('approve or refuse pending commands')
    .description(
      "Lists, approves and refuses commands that wait for confirmation. No dry-run token is needed; the tenant's\nsafety policy determines which users may confirm.",
    );
  confirmations
    .command('list', { isDefault: true })
    .description('Lists pending commands with the changes they would make, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--dry-runs', 'list requested dry runs instead, which can be confirmed too')
    .action(async ({ limit, dryRuns }: { limit: number; dryRuns?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      const query = { limit: String(limit), ...(dryRuns && { dry_runs: 'true' }) };
      const body = await client.api.get<Page>('/v1/confirmations', query);
      const ids = body.confirmations.map((one) => (previewedName(one) === null ? one.device_id : null));
      const deviceName = await fetchShownNames(client, 'device', ids);
      client.show(body, ({ confirmations: pending }) => {
        printTable(
          io,
          ['COMMAND', 'DEVICE', 'ACTION', 'PARAMS', 'CHANGES', 'EXPIRES'],
          pending.map((one) => [
            ...[one.command_id, previewedName(one) ?? deviceName(one.device_id), one.action],
            ...[JSON.stringify(one.params), formatPreview(noColours, one.preview).join(', '), one.expires_at],
          ]),
        );
        if (body.next_cursor !== null) io.err(io.errColors.dim('more entries exist: raise --limit'));
      });
    });
  confirmations
    .command('approve <command-id>')
    .description('Shows the effect of a pending command, prompts for approval, and sends it.')
    .option('-y, --yes', 'approve without a prompt')
    .option('--wait', WAIT_DESCRIPTION)
    .action(async (commandId: string, { yes, wait }: { yes?: boolean; wait?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      const pending = yes ? null : await requestApproval(client, commandId);
      const body = pending === null ? {} : { preview_hash: pending.preview_hash };
      const path = confirmationPath(commandId, 'approve');
      await showDispatched(client, () => postConfirmation(client, path, body, 'approve it again'), wait);
    });
  confirmations
    .command('refuse <command-id>')
    .description('Refuses a pending command: it is not sent.')
    .option('--reason <text>', 'reason, stored with the command')
    .action(async (commandId: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ status: string }>(
        confirmationPath(commandId, 'refuse'),
        reason === undefined ? {} : { reason },
      );
      show(body, ({ status }) => io.out(colorStatus(io, status)));
    });
}

/** Prints the effect of the command on stderr, and throws unless the user approves. */
async function requestApproval({ api, io }: CliContext, commandId: string): Promise<Confirmation> {
  const pending = await findConfirmation(api, commandId);
  const { device_id, action, params, reason, preview, requested_at, expires_at } = pending;
  const shown = previewedName(pending);
  const device = shown === null ? await deviceNameOf(api, device_id) : `${escapeForTerminal(shown)} (${device_id})`;
  io.err(`${io.errColors.bold(action)} ${JSON.stringify(params)} on ${io.errColors.bold(device)}`);
  for (const change of formatPreview(io.errColors, preview)) io.err(`  ${change}`);
  if (preview.changes === null) io.err(io.errColors.dim('  its changes cannot be predicted'));
  if (pending.plan_id !== undefined) io.err(io.errColors.dim(`  step of plan ${pending.plan_id}`));
  for (const { id, kind, subject, source, adopted_by } of pending.memories ?? []) {
    const name = subject === undefined ? '' : ` ${JSON.stringify(subject)}`;
    io.err(
      `  because of the ${kind}${name} (${id}) by ${source}${adopted_by ? `, adopted by user:${adopted_by}` : ''}`,
    );
  }
  if (pending.compensation !== undefined) {
    const { action: undo, params: undoParams } = pending.compensation;
    io.err(`  if the plan is rolled back: ${undo} ${JSON.stringify(undoParams)}`);
  }
  const times = `at ${formatTime(io, requested_at, 'stderr')}; expires at ${formatTime(io, expires_at, 'stderr')}`;
  io.err(io.errColors.dim(`  ${reason} Requested by ${requesterText(pending)} ${times}.`));
  if (!(await confirmPrompt(io, 'Send it?'))) throw new FailedError('not approved; the command is still pending');
  return pending;
}

async function findConfirmation(api: Api, commandId: string): Promise<Confirmation> {
  for (const dry_runs of ['false', 'true']) {
    let cursor: string | undefined;
    do {
      const page = await api.get<Page>('/v1/confirmations', { limit: '200', dry_runs, cursor });
      const found = page.confirmations.find(({ command_id }) => command_id === commandId.toLowerCase());
      if (found !== undefined) return found;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
  const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${encodeURIComponent(commandId)}`);
  throw new FailedError(`the command is ${command.status}, not awaiting confirmation`);
}

/** Display name of a device; a generic name if the API key may confirm but not read devices. */
async function deviceNameOf(api: Api, deviceId: string): Promise<string> {
  type Device = { device?: { name: string | null; device_type: string } };
  const { body } = await api.request<Device>('GET', `/v1/devices/${deviceId}`, { acceptStatuses: [403, 404] });
  return `${body.device?.name ?? body.device?.device_type ?? 'device'} (${deviceId})`;
}
