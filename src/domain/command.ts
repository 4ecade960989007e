/** All statuses of a command (contract §5). */
export const commandStatuses = [
  'submitted',
  'rejected',
  'awaiting_confirmation',
  'dispatched',
  'acknowledged',
  'in_progress',
  'succeeded',
  'failed',
  'timed_out',
  'expired',
  'cancelled',
] as const;
export type CommandStatus = (typeof commandStatuses)[number];

/** Groups of statuses. A command is open while it is `deciding`, `confirming` or `executing`. */
export type CommandPhase = 'deciding' | 'confirming' | 'executing' | 'succeeded' | 'failed' | 'not_sent';

const phases: Readonly<Record<CommandStatus, CommandPhase>> = {
  submitted: 'deciding',
  rejected: 'not_sent',
  awaiting_confirmation: 'confirming',
  dispatched: 'executing',
  acknowledged: 'executing',
  in_progress: 'executing',
  succeeded: 'succeeded',
  failed: 'failed',
  timed_out: 'failed',
  expired: 'not_sent',
  cancelled: 'not_sent',
};

const isFinalPhase: Readonly<Record<CommandPhase, boolean>> = {
  deciding: false,
  confirming: false,
  executing: false,
  succeeded: true,
  failed: true,
  not_sent: true,
};

export const commandPhaseOf = (status: CommandStatus): CommandPhase => phases[status];

/** Whether the status is final; after `timed_out` only a late ack is still recorded. */
export const isFinalCommandStatus = (status: CommandStatus): boolean => isFinalPhase[phases[status]];

const mayHaveActedIn: Readonly<Record<CommandStatus, boolean>> = {
  submitted: false,
  rejected: false,
  awaiting_confirmation: false,
  dispatched: false,
  acknowledged: false,
  in_progress: false,
  succeeded: true,
  failed: false,
  timed_out: true,
  expired: false,
  cancelled: false,
};

/** Whether the device of an ended command may have executed it, so that a rollback must compensate it. */
export const mayHaveActed = (status: CommandStatus): boolean => mayHaveActedIn[status];

/** Whether the device may have executed the command, or may still execute it. */
export const mayActOrHaveActed = (status: CommandStatus): boolean =>
  mayHaveActedIn[status] || phases[status] === 'executing';

const keepsSealedParamsIn: Readonly<Record<CommandStatus, boolean>> = {
  submitted: true,
  rejected: false,
  awaiting_confirmation: true,
  dispatched: true,
  acknowledged: false,
  in_progress: false,
  succeeded: false,
  failed: false,
  timed_out: false,
  expired: false,
  cancelled: false,
};

/** Whether a command may still have to be sent, which takes its `writeOnly` parameters: until the device's first ack. */
export const keepsSealedParams = (status: CommandStatus): boolean => keepsSealedParamsIn[status];

export const verificationStatuses = ['pending', 'verified', 'mismatched', 'timed_out', 'unverifiable'] as const;
export type VerificationStatus = (typeof verificationStatuses)[number];

/** Statuses that a device may report in `cmd_ack`. */
export const ackStatuses = ['accepted', 'in_progress', 'succeeded', 'failed'] as const;
export type AckStatus = (typeof ackStatuses)[number];

/** Late acks are accepted for this long after `timed_out` (contract §5). */
export const LATE_ACK_MS = 24 * 3_600_000;
export const DEFAULT_TTL_S = 60;
export const MAX_TTL_S = 86_400;
export const MAX_CRITICAL_TTL_S = 300;
export const DEFAULT_TIMEOUT_S = 30;
export const MAX_TIMEOUT_S = 3_600;
/** Renewed by `in_progress`, a timeout ends at most this many times `timeout_s` after the first write (decision 63). */
export const MAX_TIMEOUT_FACTOR = 10;
export const DEFAULT_VERIFY_WITHIN_S = 10;
