import type { Command } from 'commander';
import pc from 'picocolors';
import type { JsonObject } from '../../domain/values.ts';
import type { Api } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { confirmPrompt } from '../confirm-prompt.ts';
import { FailedError } from '../errors.ts';
import type { Io } from '../io.ts';
import { type Changes, colorStatus, escapeForTerminal, formatChanges, printTable } from '../print.ts';
import { type CommandRecord, type Dispatched, showDispatched, WAIT_DESCRIPTION } from './device-commands.ts';

interface Confirmation {
  command_id: string;
  device_id: string;
  action: string;
  params: JsonObject;
  reason: string;
  preview: { changes: Changes | null };
  requested_by: string;
  requested_at: string;
  expires_at: string;
  plan_id?: string;
  compensation?: { action: string; params: JsonObject };
}
interface Page {
  confirmations: Confirmation[];
  next_cursor: string | null;
}

/** The columns are as wide as their texts. */
const noColours = pc.createColors(false);
const confirmationPath = (commandId: string, verb: string): string =>
  `/v1/confirmations/${encodeURIComponent(commandId)}/${verb}`;

export function addConfirmations(program: Command, io: Io): void {
  const confirmations = program
    .command('confirmations')
    .summary('what waits for a confirmation')
    .description(
      "Commands that wait for a confirmation: look at them, approve or refuse them. No token is needed; the\ntenant's policy says who may.",
    );
  confirmations
    .command('list', { isDefault: true })
    .description('What waits, newest first, and what it would change.')
    .option('--limit <n>', 'at most so many', parseIntegerBetween(1, 200), 50)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.get<Page>('/v1/confirmations', { limit: String(limit) });
      show(body, ({ confirmations: waiting }) => {
        printTable(
          io,
          ['COMMAND', 'DEVICE', 'ACTION', 'PARAMS', 'CHANGES', 'UNTIL'],
          waiting.map(({ command_id, device_id, action, params, preview, expires_at }) => [
            ...[command_id, device_id, escapeForTerminal(action), escapeForTerminal(JSON.stringify(params))],
            ...[formatChanges(noColours, preview.changes).join(', '), expires_at],
          ]),
        );
        if (body.next_cursor !== null) io.err(io.errColors.dim('there are more; --limit shows them'));
      });
    });
  confirmations
    .command('approve <command-id>')
    .description('Shows what a waiting command would do, asks, and sends it.')
    .option('-y, --yes', 'do not ask')
    .option('--wait', WAIT_DESCRIPTION)
    .action(async (commandId: string, { yes, wait }: { yes?: boolean; wait?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      if (!yes) await requestApproval(client, commandId);
      await showDispatched(client, () => client.api.post<Dispatched>(confirmationPath(commandId, 'approve')), wait);
    });
  confirmations
    .command('refuse <command-id>')
    .description('Says no to a waiting command: it will not be sent.')
    .option('--reason <text>', 'why; it is kept with the command')
    .action(async (commandId: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = await api.post<{ status: string }>(
        confirmationPath(commandId, 'refuse'),
        reason === undefined ? {} : { reason },
      );
      show(body, ({ status }) => io.out(colorStatus(io, status)));
    });
}

/** Shows what the command would do on stderr, and throws unless somebody says yes. */
async function requestApproval({ api, io }: CliContext, commandId: string): Promise<void> {
  const waiting = await findConfirmation(api, commandId);
  const { device_id, action, params, reason, preview, requested_by, requested_at, expires_at } = waiting;
  const device = escapeForTerminal(await deviceNameOf(api, device_id));
  io.err(
    `${io.errColors.bold(escapeForTerminal(action))} ${escapeForTerminal(JSON.stringify(params))} on ${io.errColors.bold(device)}`,
  );
  for (const change of formatChanges(io.errColors, preview.changes)) io.err(`  ${change}`);
  if (preview.changes === null) io.err(io.errColors.dim('  what it changes cannot be told beforehand'));
  if (waiting.plan_id !== undefined) io.err(io.errColors.dim(`  a step of the plan ${waiting.plan_id}`));
  if (waiting.compensation !== undefined) {
    const { action: undo, params: how } = waiting.compensation;
    io.err(`  and, should the plan be undone: ${escapeForTerminal(undo)} ${escapeForTerminal(JSON.stringify(how))}`);
  }
  io.err(io.errColors.dim(`  ${reason} Asked for by ${requested_by} at ${requested_at}; open until ${expires_at}.`));
  if (!(await confirmPrompt(io, 'Send it?'))) throw new FailedError('not approved; it waits on');
}

async function findConfirmation(api: Api, commandId: string): Promise<Confirmation> {
  let cursor: string | undefined;
  do {
    const page = await api.get<Page>('/v1/confirmations', { limit: '200', cursor });
    const found = page.confirmations.find(({ command_id }) => command_id === commandId.toLowerCase());
    if (found !== undefined) return found;
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  const { command } = await api.get<{ command: CommandRecord }>(`/v1/commands/${encodeURIComponent(commandId)}`);
  throw new FailedError(`the command is ${command.status} and does not wait for a confirmation`);
}

/** As people call it; a key may be allowed to confirm and not to look at devices. */
async function deviceNameOf(api: Api, deviceId: string): Promise<string> {
  type Device = { device?: { name: string | null; device_type: string } };
  const { body } = await api.request<Device>('GET', `/v1/devices/${deviceId}`, { acceptStatuses: [403, 404] });
  return `${body.device?.name ?? body.device?.device_type ?? 'device'} (${deviceId})`;
}
