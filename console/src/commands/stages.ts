import { type CommandStatus, isFinalCommandStatus } from '../../../src/domain/command.ts';
import type { getCommand } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import type { Tone } from '../ui/tone.ts';
import { formatValue } from '../ui/values.tsx';

// Stages of a command, from submission to verification.

export type CommandRecord = ResponseBody<typeof getCommand>['command'];

export interface Stage {
  id: string;
  title: string;
  /** `now`: the current stage of an open command. `over`: the command ended here without success. */
  phase: 'done' | 'now' | 'ahead' | 'over';
  tone: Tone;
  at: string | null;
  by: string | null;
  note: string | null;
}

export const titles: Readonly<Record<CommandStatus, string>> = {
  submitted: 'Submitted',
  rejected: 'Rejected',
  awaiting_confirmation: 'Waiting for confirmation',
  dispatched: 'Dispatched',
  acknowledged: 'Acknowledged',
  in_progress: 'In progress',
  succeeded: 'Succeeded',
  failed: 'Failed',
  timed_out: 'Timed out',
  expired: 'Expired',
  cancelled: 'Cancelled',
};

export const toneOfStatus: Readonly<Record<CommandStatus, Tone>> = {
  submitted: 'info',
  rejected: 'bad',
  awaiting_confirmation: 'warn',
  dispatched: 'info',
  acknowledged: 'info',
  in_progress: 'info',
  succeeded: 'good',
  failed: 'bad',
  timed_out: 'bad',
  expired: 'warn',
  cancelled: 'warn',
};

const expectedStatuses: readonly CommandStatus[] = ['dispatched', 'acknowledged', 'succeeded'];

/** The command ended without success. */
const isUnsuccessful = (status: CommandStatus): boolean => isFinalCommandStatus(status) && status !== 'succeeded';

/** Whether the command is finished; only a late acknowledgement can still change it. */
export const isFinal = ({ status, verification }: Pick<CommandRecord, 'status' | 'verification'>): boolean =>
  isFinalCommandStatus(status) && !(status === 'succeeded' && verification.status === 'pending');

export function stagesOf(command: CommandRecord): Stage[] {
  const { timeline, status, progress } = command;
  const isOpen = !isFinal(command);
  const past = timeline.map(({ status: reached, at, by, reason }, index): Stage => {
    const isLast = index === timeline.length - 1;
    const phase = isUnsuccessful(reached) ? 'over' : isLast && isOpen && reached !== 'succeeded' ? 'now' : 'done';
    const title = reached === 'awaiting_confirmation' && phase === 'done' ? 'Waited for confirmation' : titles[reached];
    const shownProgress =
      reached === 'in_progress' && progress !== undefined ? `Progress: ${formatValue(progress)}` : null;
    return { id: reached, title, phase, tone: toneOfStatus[reached], at, by, note: reason ?? shownProgress };
  });
  if (isUnsuccessful(status)) {
    // The expected state may have been reported although the command did not succeed.
    return command.verification.status === 'verified' ? [...past, verificationStage(command)] : past;
  }
  const from = Math.max(
    ...expectedStatuses.map((one, index) => (timeline.some((moment) => moment.status === one) ? index : -1)),
  );
  // `in_progress` implies `acknowledged`.
  const reached = status === 'in_progress' ? 1 : from;
  const ahead = expectedStatuses
    .slice(reached + 1)
    .map(
      (one): Stage => ({ id: one, title: titles[one], phase: 'ahead', tone: 'quiet', at: null, by: null, note: null }),
    );
  return [...past, ...ahead, verificationStage(command)];
}

function verificationStage({ status, verification }: CommandRecord): Stage {
  const { status: found, checked_at: at } = verification;
  const base = { id: 'verified', at, by: null };
  switch (found) {
    case 'verified':
      return {
        ...base,
        title: 'Verified',
        phase: 'done',
        tone: 'good',
        note: 'The device reports the expected state.',
      };
    case 'mismatched':
      return {
        ...base,
        title: 'Not verified',
        phase: 'over',
        tone: 'bad',
        note: 'The device reports a different state.',
      };
    case 'timed_out':
      return {
        ...base,
        title: 'Not verified',
        phase: 'over',
        tone: 'bad',
        note: 'The device reported no state in time.',
      };
    case 'unverifiable':
      return {
        ...base,
        title: 'Not verifiable',
        phase: 'done',
        tone: 'quiet',
        note: 'The action has no expected state.',
      };
    case 'pending':
      return status === 'succeeded'
        ? { ...base, title: 'Verifying', phase: 'now', tone: 'info', note: 'Waiting for the expected state.' }
        : { ...base, title: 'Verified', phase: 'ahead', tone: 'quiet', note: null };
  }
}
