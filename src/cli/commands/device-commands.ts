import type { Command } from 'commander';
import { isRestricted } from '../../domain/capability-registry.ts';
import { type CommandStatus, isFinalCommandStatus, type VerificationStatus } from '../../domain/command.ts';
import { deviceErrorText } from '../../domain/device-error-text.ts';
import type { Preview } from '../../domain/twin.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { type Api, type RequestOptions, receivedProblemOf } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { addCommandOptions, type CommandRequestOptions, commandRequestOf } from '../command-request.ts';
import { FailedError, RefusedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { waitForOutcome } from '../outcome-watch.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, formatPreview, printRecord, printTable } from '../print.ts';
import { fetchShownNames } from '../shown-names.ts';
import { formatTime } from '../time-text.ts';
import type { LiveUpdate } from '../update-stream.ts';

/** Response to a command that was accepted. */
export type Dispatched = { success: true; command_id: string; message_id: string };
/** Response to a command that requires confirmation. */
export interface DryRun {
  status: 'dry_run_required';
  reason: string;
  dry_run_token: string;
  expires_at: string;
  command_id: string;
  preview: Preview;
}
/** Response to a confirmation of a command that has another effect now. */
type PreviewChanged = Omit<DryRun, 'dry_run_token'> & { preview_hash: string };
export const isDryRun = (body: Dispatched | DryRun): body is DryRun => 'dry_run_token' in body;

export interface CommandRecord {
  id: string;
  device_id: string;
  action: string;
  status: CommandStatus;
  verification: { status: VerificationStatus };
  progress?: unknown;
  error?: unknown;
  refusal?: { code: string; detail: string } | null;
  timeline: { status: CommandStatus; at: string; by: string; reason?: string }[];
}

export const WAIT_DESCRIPTION =
  'wait for the outcome; exit with 1 unless the command succeeds and its verification does not fail';
const commandPath = (deviceId: string): string => `/v1/device/${encodeURIComponent(deviceId)}/command`;

interface ConfirmOptions {
  preview?: string;
  wait?: boolean;
}

interface CommandOptions extends CommandRequestOptions {
  wait?: boolean;
}

export function addDeviceCommands(program: Command, io: Io): void {
  addCommandOptions(program.command('command <device> <action> [name=value...]'))
    .summary('send a command to a device')
    .description(
      'Sends a command to a device. A critical action is not sent: its changes and the command to confirm it are\n' +
        'printed, and the exit code is 1.',
    )
    .option('--wait', WAIT_DESCRIPTION)
    .addHelpText(
      'after',
      '\nExamples:\n  twinkeep command "Desk lamp" set_brightness level=40 --wait\n  twinkeep command "Front door" unlock',
    )
    .action(
      async (device: string, action: string, assignments: string[], options: CommandOptions, command: Command) => {
        const client = createCliContext(io, command);
        const request = await commandRequestOf(io, action, assignments, options);
        const deviceId = await client.resolve('device', device);
        const send = async (): Promise<Dispatched | null> => {
          const options: RequestOptions = { acceptStatuses: [409], body: request };
          const { status, body } = await client.api
            .request<Dispatched | DryRun>('POST', commandPath(deviceId), options)
            .catch(async (thrown: unknown) => {
              throw await withOfferedActions(client.api, deviceId, thrown);
            });
          if (status === 409 && !isDryRun(body)) throw refusalError(body);
          if (!isDryRun(body)) return body;
          client.show(body, (dryRun) => showDryRun(io, deviceId, dryRun));
          if (status === 409) throw new FailedError('the action is critical and has to be confirmed first');
          return null;
        };
        await showDispatched(client, send, options.wait);
      },
    );
  program
    .command('confirm <device> <dry-run-token>')
    .summary('confirm a critical command')
    .description('Confirms and sends a command that awaits confirmation.')
    .option('--preview <hash>', 'the preview that is confirmed, if it has changed since the request')
    .option('--wait', WAIT_DESCRIPTION)
    .action(async (device: string, token: string, options: ConfirmOptions, command: Command) => {
      const client = createCliContext(io, command);
      const deviceId = await client.resolve('device', device);
      const body = { dry_run_token: token, ...(options.preview && { preview_hash: options.preview }) };
      const path = `${commandPath(deviceId)}/confirm`;
      const again = ({ preview_hash }: PreviewChanged) =>
        `to send it: twinkeep confirm ${deviceId} ${token} --preview ${preview_hash}`;
      await showDispatched(client, () => postConfirmation(client, path, body, again), options.wait);
    });
  addHistory(program, io);
}

/** The refusal of an unknown action with the actions that the device offers; any other error unchanged. */
async function withOfferedActions(api: Api, deviceId: string, thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof RefusedError) || thrown.problem.code !== 'ACTION_NOT_IN_MANIFEST') return thrown;
  try {
    const path = `/v1/devices/${encodeURIComponent(deviceId)}/manifest`;
    const { capabilities } = await api.get<{ capabilities: { action: string }[] }>(path);
    const offered = capabilities.map(({ action }) => action).filter((action) => !isRestricted(action));
    return new RefusedError({ ...thrown.problem, detail: `${thrown.message} It offers: ${offered.join(', ')}.` });
  } catch {
    // The caller may send commands, but not read the manifest.
    return thrown;
  }
}

const refusalError = (body: unknown): Error => {
  const { detail, code } = body as { detail?: string; code?: string };
  return new FailedError(`409 ${code ?? ''} ${detail ?? ''}`);
};

function showDryRun(io: Io, deviceId: string, { reason, preview, dry_run_token, expires_at }: DryRun): void {
  io.out(`${io.outColors.yellow('not sent')}: ${reason}`);
  for (const change of formatPreview(io.outColors, preview)) io.out(`  ${change}`);
  io.out(`confirm until ${formatTime(io, expires_at)}:`);
  io.out(`  twinkeep confirm ${deviceId} ${dry_run_token}`);
}

/**
 * Confirms a command. If its effect has changed since the preview, prints the new preview and throws; `next` is the
 * next step.
 */
export async function postConfirmation(
  { api, io }: CliContext,
  path: string,
  body: object,
  next: string | ((changed: PreviewChanged) => string),
): Promise<Dispatched> {
  const answer = await api.request<Dispatched | PreviewChanged>('POST', path, { acceptStatuses: [409], body });
  if (answer.status !== 409) return answer.body as Dispatched;
  if (!('preview_hash' in answer.body)) throw new RefusedError(receivedProblemOf(409, answer.body));
  const { preview } = answer.body;
  for (const change of formatPreview(io.errColors, preview)) io.err(`  ${change}`);
  const hint = typeof next === 'string' ? next : next(answer.body);
  throw new FailedError(`not sent: the preview has changed since it was made; ${hint}`);
}

/** Sends a command and prints its id, or with `wait` its outcome. `send` resolves with null if no command was sent. */
export async function showDispatched(
  { api, io, show }: CliContext,
  send: () => Promise<Dispatched | null>,
  wait = false,
): Promise<void> {
  if (!wait) {
    const body = await send();
    if (body !== null) show(body, ({ command_id }) => io.out(command_id));
    return;
  }
  const command = await waitForCommand(api, async () => {
    const body = await send();
    return body && { id: body.command_id };
  });
  if (command === null) return;
  show(command, () => showCommand(io, command));
  if (command.status !== 'succeeded') throw new FailedError(`the command is ${command.status}`);
  const { status } = command.verification;
  if (status === 'mismatched') throw new FailedError('the command succeeded, but its device reports a different state');
  if (status === 'timed_out')
    throw new FailedError('the command succeeded, but its device did not report the new state');
}

/** Sends a command and waits until its status and verification are final; the service has deadlines for both. */
const waitForCommand = (api: Api, send: () => Promise<{ id: string } | null>): Promise<CommandRecord | null> =>
  waitForOutcome<CommandRecord>(api, {
    updates: { events: ['command'] },
    start: send,
    async read(id) {
      const found = await api.request<{ command: CommandRecord }>('GET', `/v1/commands/${id}`, {
        ...{ retryWhenBusy: true, idempotent: true },
      });
      return found.body.command;
    },
    isAbout: ({ command_id }, id) => command_id === id,
    isFinalUpdate: ({ status, verification }: LiveUpdate) =>
      hasEnded(status as CommandStatus, verification as VerificationStatus),
    hasEnded: ({ status, verification }) => hasEnded(status, verification.status),
  });

const hasEnded = (status: CommandStatus, verification: VerificationStatus): boolean =>
  isFinalCommandStatus(status) && !(status === 'succeeded' && verification === 'pending');

function showCommand(io: Io, command: CommandRecord): void {
  const { id, device_id, action, status, verification, progress, error, refusal, timeline } = command;
  printRecord(io, {
    ...{ id, device_id, action },
    status: colorStatus(io, status),
    verification: colorStatus(io, verification.status),
    progress: progress ?? undefined,
    error: error ?? undefined,
    refusal: refusal ?? undefined,
  });
  for (const step of timeline)
    io.out(io.outColors.dim(`  ${formatTime(io, step.at)}  ${step.status}${step.reason ? `: ${step.reason}` : ''}`));
}

interface ListOptions {
  limit: number;
  status?: string;
  by?: string;
  from?: string;
  to?: string;
  cursor?: string;
}

type ListedCommand = CommandNotes & {
  id: string;
  device_id: string;
  action: string;
  params: JsonObject;
  timestamp: string;
};

type CommandNotes = Pick<CommandRecord, 'status' | 'progress' | 'error' | 'refusal'>;

/** Progress of a running command, or why it was refused or failed, in a few words. */
function noteOf({ status, progress, error, refusal }: CommandNotes): string {
  if (refusal != null) return refusal.code;
  if (status === 'in_progress' && progress !== undefined) return `progress ${JSON.stringify(progress)}`;
  return status === 'failed' ? (deviceErrorText((error ?? null) as Json) ?? '') : '';
}

function addHistory(program: Command, io: Io): void {
  const commands = program
    .command('commands')
    .summary('inspect commands')
    .description('Lists, shows and cancels commands.');
  commands
    .command('list [device]')
    .description('Lists the commands of a device, or of all devices, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--status <status>', 'only commands in this status')
    .option('--by <member>', 'only commands of this member, also a former one by id')
    .option('--from <time>', 'only commands requested at or after this time (RFC 3339)')
    .option('--to <time>', 'only commands requested before this time')
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async (device: string | undefined, options: ListOptions, command: Command) => {
      const { limit, status, by, from, to, cursor } = options;
      const client = createCliContext(io, command);
      const { api, show, resolveOption } = client;
      const device_id = await resolveOption('device', device);
      const requested_by = await resolveOption('member', by);
      const query = { device_id, status, requested_by, from, to, cursor };
      type Body = { commands: ListedCommand[]; next_cursor: string | null };
      const body = await fetchPages<Body>(api, '/v1/commands', { name: 'commands', limit, query });
      const ids = body.commands.map((entry) => entry.device_id);
      const deviceName = await fetchShownNames(client, 'device', ids);
      show(body, ({ commands: entries, next_cursor }) => {
        const rows = entries.map((entry) => [
          ...[entry.id, entry.timestamp, deviceName(entry.device_id), entry.action, JSON.stringify(entry.params)],
          ...[entry.status, noteOf(entry)],
        ]);
        printTable(io, ['ID', 'AT', 'DEVICE', 'ACTION', 'PARAMS', 'STATUS', 'NOTE'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
  commands
    .command('get <command-id>')
    .description('Shows a command with its timeline.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.get<{ command: CommandRecord }>(`/v1/commands/${encodeURIComponent(id)}`);
      show(body, (found) => showCommand(io, found.command));
    });
  commands
    .command('cancel <command-id>')
    .description('Cancels a command that was not sent to the device yet.')
    .action(async (id: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ status: string }>(`/v1/commands/${encodeURIComponent(id)}/cancel`);
      show(body, ({ status }) => io.out(colorStatus(io, status)));
    });
}
