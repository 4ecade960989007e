import type { commandDevices } from '../../../../src/operations/commands/command-batches.ts';
import type { ResponseBody } from '../../api/answer-types.ts';
import { requestJson } from '../../api/client.ts';
import { IdempotentSender, isOutcomeUnknown } from '../../api/idempotent-sender.ts';
import type { ChosenAction } from '../../commands/action-fields.tsx';
import { type CommandRecord, isFinal, titles, toneOfStatus } from '../../commands/stages.ts';
import { commandHref } from '../../commands/status.tsx';
import { deviceHref } from '../device-name.tsx';
import { type BulkControl, type BulkOutcome, failed, runForEach, STOPPED, whenAllowed } from './bulk-run.ts';

/** Devices of one command request (contract §5). */
const MAX_TARGETS = 500;

export type BulkJob = (deviceIds: readonly string[], control: BulkControl) => Promise<void>;
type TargetEntry = ResponseBody<typeof commandDevices>['results'][number];

/** Not a failure: the user could select those to send the command again. */
const unknown = (deviceId: string): BulkOutcome => ({
  ...{ tone: 'warn', text: 'outcome unknown: the service does not respond', isFinal: true },
  href: deviceHref(deviceId),
});

const changed = (text: string): BulkOutcome => ({ tone: 'good', text, isFinal: true });

export const moveJob =
  (home_id: string, room_id: string | null): BulkJob =>
  (ids, control) =>
    runForEach(
      ids,
      async (id) => {
        await requestJson('PATCH', `/v1/devices/${id}`, { body: { home_id, room_id } });
        return changed('moved');
      },
      control,
    );

/** `reason` is empty without one. */
export const revokeJob =
  (reason: string): BulkJob =>
  (ids, control) =>
    runForEach(
      ids,
      async (id) => {
        await requestJson('POST', `/v1/device/${id}/revoke`, { body: reason === '' ? {} : { reason } });
        return changed('revoked');
      },
      control,
    );

/** `onCommand` receives the command of each device that has one, after its first outcome was reported. */
export const commandJob =
  ({ action, params }: ChosenAction, onCommand: (commandId: string, deviceId: string) => void): BulkJob =>
  async (ids, { isStopped, report }) => {
    for (let from = 0; from < ids.length; from += MAX_TARGETS) {
      const device_ids = ids.slice(from, from + MAX_TARGETS);
      if (isStopped()) {
        for (const id of device_ids) report(id, STOPPED);
        continue;
      }
      const body = { device_ids, action, params };
      const sender = new IdempotentSender();
      const send = () =>
        sender.send({ text: JSON.stringify(body) }, (key) =>
          requestJson<ResponseBody<typeof commandDevices>>('POST', '/v1/devices/command', {
            ...{ body, headers: { 'idempotency-key': key } },
          }),
        );
      // After a lost answer the service returns it: the key is the same.
      const sendAgain = (thrown: unknown) => {
        if (!isOutcomeUnknown(thrown) || isStopped()) throw thrown;
        return whenAllowed(send, isStopped);
      };
      try {
        const { results } = await whenAllowed(send, isStopped).catch(sendAgain);
        for (const result of results) {
          report(result.device_id, outcomeOfTarget(result));
          if (result.command_id !== undefined) onCommand(result.command_id, result.device_id);
        }
      } catch (thrown) {
        for (const id of device_ids) report(id, isOutcomeUnknown(thrown) ? unknown(id) : failed(thrown));
      }
    }
  };

function outcomeOfTarget({ status, command_id, error }: TargetEntry): BulkOutcome {
  const link = command_id !== undefined && { href: commandHref(command_id) };
  if (status === 'dispatched') return { tone: 'info', text: 'sent', isFinal: false, ...link };
  if (status === 'dry_run_required')
    return { tone: 'warn', text: 'waits for a confirmation', isFinal: true, href: '/confirmations' };
  return { tone: 'bad', text: error ?? 'refused', isFinal: true, ...link };
}

/** The status of a command and of its verification. */
export type CommandProgressRecord = Pick<CommandRecord, 'status' | 'verification'>;

export function outcomeOfCommand(commandId: string, command: CommandProgressRecord): BulkOutcome {
  const { status, verification } = command;
  const href = commandHref(commandId);
  if (status === 'succeeded' && verification.status === 'mismatched')
    return { tone: 'bad', text: 'succeeded, but the reported state differs', isFinal: true, href };
  return { tone: toneOfStatus[status], text: titles[status].toLowerCase(), isFinal: isFinal(command), href };
}
