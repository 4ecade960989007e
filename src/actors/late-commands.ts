import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import { isFinal } from '../machines/command-record.ts';
import { administrationOf } from '../machines/device-record.ts';
import { addressOf } from './entity.ts';
import type { Supervisor } from './supervisor.ts';
import { messageOf } from './tell.ts';

/**
 * Cancels commands that were decided beside the revocation of their device. A revocation is delivered to the commands of the
 * device that are committed by then (`commands.tell`). What another turn in flight decided on the device as it was before is
 * committed later, and is told when it is released. Plans need no such look: a step is asked for on the tenant as it is
 * then, and is held back where that is suspended.
 */
export function cancelLateCommands(supervisor: Supervisor, { clock, log }: { clock: Clock; log: Log }): void {
  supervisor.on('command.changed', ({ status, deviceId, commandId }) => {
    if (isFinal(status)) return;
    const device = supervisor.peek({ kind: 'device', id: deviceId });
    if (device === undefined || administrationOf(device.snapshot) === 'active') return;
    const to = { kind: 'command', id: commandId } as const;
    const event = messageOf({ type: 'device.revoked', deviceId }, clock.now());
    supervisor.deliver(to, event, { patient: true }).catch((error) => {
      log.warn({ err: error, actor: addressOf(to) }, 'command of a revoked device was not cancelled');
    });
  });
}
