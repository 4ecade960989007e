import type { CommandStatus } from '../../../src/domain/command.ts';
import type { getCommand } from '../../../src/operations/commands/command-view.ts';
import type { Answer } from '../api/answer-types.ts';
import type { Tone } from '../ui/tone.ts';

// A command's way, from asked for to seen to be done, as a row of stages.

export type CommandRecord = Answer<typeof getCommand>['command'];

export interface Stage {
  id: string;
  title: string;
  /** `now`: it is there, and goes on. `over`: it ended there, and not well. */
  phase: 'done' | 'now' | 'ahead' | 'over';
  tone: Tone;
  at: string | null;
  by: string | null;
  note: string | null;
}

export const titles: Readonly<Record<CommandStatus, string>> = {
  submitted: 'Submitted',
  rejected: 'Rejected',
  awaiting_confirmation: 'Waits for confirmation',
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
const unsuccessfulStatuses: readonly CommandStatus[] = ['rejected', 'failed', 'timed_out', 'expired', 'cancelled'];

/** Nothing of it changes any more but by a late word. */
export const isFinal = ({ status, verification }: Pick<CommandRecord, 'status' | 'verification'>): boolean =>
  unsuccessfulStatuses.includes(status) || (status === 'succeeded' && verification.status !== 'pending');

export function stagesOf(command: CommandRecord): Stage[] {
  const { timeline, status } = command;
  const goesOn = !isFinal(command);
  const been = timeline.map(({ status: reached, at, by, reason }, index): Stage => {
    const last = index === timeline.length - 1;
    const is = unsuccessfulStatuses.includes(reached)
      ? 'over'
      : last && goesOn && reached !== 'succeeded'
        ? 'now'
        : 'done';
    const title = reached === 'awaiting_confirmation' && is === 'done' ? 'Waited for confirmation' : titles[reached];
    return { id: reached, title, phase: is, tone: toneOfStatus[reached], at, by, note: reason ?? null };
  });
  if (unsuccessfulStatuses.includes(status)) {
    // A state that was seen all the same is worth knowing.
    return command.verification.status === 'verified' ? [...been, verificationStage(command)] : been;
  }
  const from = Math.max(
    ...expectedStatuses.map((one, index) => (timeline.some((moment) => moment.status === one) ? index : -1)),
  );
  // Whoever reports that it is under way has acknowledged it.
  const reached = status === 'in_progress' ? 1 : from;
  const coming = expectedStatuses
    .slice(reached + 1)
    .map(
      (one): Stage => ({ id: one, title: titles[one], phase: 'ahead', tone: 'quiet', at: null, by: null, note: null }),
    );
  return [...been, ...coming, verificationStage(command)];
}

function verificationStage({ status, verification }: CommandRecord): Stage {
  const { status: found, checked_at: at } = verification;
  const base = { id: 'verified', at, by: null };
  switch (found) {
    case 'verified':
      return { ...base, title: 'Verified', phase: 'done', tone: 'good', note: 'The device reports what was expected.' };
    case 'mismatched':
      return { ...base, title: 'Not verified', phase: 'over', tone: 'bad', note: 'The device reports another state.' };
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
        note: 'No state of the device proves it.',
      };
    case 'pending':
      return status === 'succeeded'
        ? { ...base, title: 'Verifying', phase: 'now', tone: 'info', note: 'Waits for the state that proves it.' }
        : { ...base, title: 'Verified', phase: 'ahead', tone: 'quiet', note: null };
  }
}
