import { describe, expect, it } from 'vitest';
import { type CommandRecord, stagesOf } from '../../../console/src/commands/stages.ts';
import type { CommandStatus, VerificationStatus } from '../../../src/domain/command.ts';

const at = '2026-03-01T12:00:00.000Z';

function command(statuses: CommandStatus[], verification: VerificationStatus = 'pending'): CommandRecord {
  return {
    id: '0195d9a2-7f00-7000-8000-000000000001',
    device_id: '0195d9a2-7f00-7000-8000-000000000002',
    action: 'turn_on',
    params: {},
    timestamp: at,
    status: statuses.at(-1) ?? 'submitted',
    safety_class: 'NORMAL',
    ttl_s: 60,
    timeout_s: 30,
    requested_by: 'ada',
    verification: { status: verification, checked_at: null },
    timeline: statuses.map((status) => ({ status, at, by: 'ada' })),
  };
}

const drawn = (...[statuses, verification]: Parameters<typeof command>): string =>
  stagesOf(command(statuses, verification))
    .map(({ title, phase }) => `${title} ${phase}`)
    .join(', ');

it('the stage in progress shows what the device reports', () => {
  const running = { ...command(['submitted', 'dispatched', 'in_progress']), progress: 40 };
  expect(stagesOf(running).find(({ id }) => id === 'in_progress')?.note).toBe('Progress: 40');
});

describe('the stages of a command', () => {
  it.each<[CommandStatus[], VerificationStatus, string]>([
    [
      ['submitted', 'dispatched'],
      'pending',
      'Submitted done, Dispatched now, Acknowledged ahead, Succeeded ahead, Verified ahead',
    ],
    [
      ['submitted', 'awaiting_confirmation'],
      'pending',
      'Submitted done, Waiting for confirmation now, Dispatched ahead, Acknowledged ahead, Succeeded ahead, Verified ahead',
    ],
    [
      ['submitted', 'awaiting_confirmation', 'dispatched', 'in_progress'],
      'pending',
      'Submitted done, Waited for confirmation done, Dispatched done, In progress now, Succeeded ahead, Verified ahead',
    ],
    [
      ['submitted', 'dispatched', 'succeeded'],
      'pending',
      'Submitted done, Dispatched done, Succeeded done, Verifying now',
    ],
    [
      ['submitted', 'dispatched', 'succeeded'],
      'verified',
      'Submitted done, Dispatched done, Succeeded done, Verified done',
    ],
    [
      ['submitted', 'dispatched', 'succeeded'],
      'mismatched',
      'Submitted done, Dispatched done, Succeeded done, Not verified over',
    ],
    [['submitted', 'rejected'], 'pending', 'Submitted done, Rejected over'],
    [['submitted', 'dispatched', 'timed_out'], 'pending', 'Submitted done, Dispatched done, Timed out over'],
    [
      ['submitted', 'dispatched', 'timed_out'],
      'verified',
      'Submitted done, Dispatched done, Timed out over, Verified done',
    ],
    [
      ['submitted', 'dispatched', 'timed_out', 'succeeded'],
      'verified',
      'Submitted done, Dispatched done, Timed out over, Succeeded done, Verified done',
    ],
  ])('through %j, verification %s', (statuses, verification, text) => {
    expect(drawn(statuses, verification)).toBe(text);
  });
});
