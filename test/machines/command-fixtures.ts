import { commandStatusOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import type { Driven } from './machine-driver.ts';
import { ackReceived, COMMAND, DEVICE, other, requestedCommand, T0, TENANT, uuid } from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
export const MINUTE = 60_000;
export const TIMEOUT = 30_000;
export const TTL_TIMER = 'xstate.after.ttlOver.command.lifecycle.queued';
export const ANSWER_TIMER = 'xstate.after.answerOver.command.lifecycle.written';

export const status = (command: Command) => commandStatusOf(command.asSnapshot());
export const revoked = (at: number) => ({ type: 'device.revoked', at, deviceId: DEVICE }) satisfies CommandEvent;
export const cancel = (at: number) =>
  ({ type: 'cancel', at, by: other, reason: 'changed my mind' }) satisfies CommandEvent;
export const undone = (sessionId: string, at: number) =>
  ({ type: 'write.undone', at, sessionId }) satisfies CommandEvent;
export const message = {
  messageId: uuid(20),
  requestId: 'request-1',
  action: 'set_brightness',
  params: { level: 70 },
  issuedAt: T0,
  expiresAt: T0 + MINUTE,
};
export const write = (sessionId: string, critical = false) => ({
  type: 'command.write',
  tenantId: TENANT,
  deviceId: DEVICE,
  commandId: COMMAND,
  sessionId,
  critical,
  message,
});
export const changed = (to: string, verification: string, at: number) => ({
  type: 'command.changed',
  tenantId: TENANT,
  deviceId: DEVICE,
  commandId: COMMAND,
  status: to,
  verification,
  at,
});
export const watch = {
  type: 'verification.watch',
  deviceId: DEVICE,
  commandId: COMMAND,
  expected: { brightness: 70 },
};

/** Commands in each status, all NORMAL and without an expected state. */
export const blink = { action: 'blink', params: {} };
export const written = (more: object = {}) => requestedCommand({ ...blink, session: 's1', ...more });
export const having = (command: Command, ...events: CommandEvent[]) => {
  for (const event of events) command.send(event);
  return command;
};
export const inStatus = {
  rejected: () => requestedCommand({ action: 'fly' }),
  awaiting_confirmation: () => requestedCommand({ ...blink, facts: { dryRun: true } }),
  queued: () => requestedCommand(blink),
  dispatched: () => written(),
  acknowledged: () => having(written(), ackReceived('accepted', T0 + 1)),
  in_progress: () => having(written(), ackReceived('in_progress', T0 + 1)),
  succeeded: () => having(written(), ackReceived('succeeded', T0 + 1)),
  failed: () => having(written(), ackReceived('failed', T0 + 1)),
  timed_out: () => {
    const command = written();
    command.fire();
    return command;
  },
  closed: () => {
    const command = written();
    command.fire();
    command.fire();
    return command;
  },
  expired: () => {
    const command = requestedCommand(blink);
    command.fire();
    return command;
  },
  cancelled: () => having(requestedCommand(blink), cancel(T0 + 1)),
};
export type Where = keyof typeof inStatus;
export const everywhere = Object.keys(inStatus) as Where[];
export const finalPlaces: Where[] = ['rejected', 'succeeded', 'failed', 'closed', 'expired', 'cancelled'];
