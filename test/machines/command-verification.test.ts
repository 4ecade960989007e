import { describe, expect, it } from 'vitest';
import { commandStatusOf, verificationOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import { type Driven, NOTHING } from './machine-driver.ts';
import {
  ackReceived,
  COMMAND,
  capability,
  DEVICE,
  dimmer,
  HOUR,
  observed,
  ofType,
  ready,
  requestedCommand,
  T0,
  typesOf,
  uuid,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
const VERIFY_TIMER = 'xstate.after.verificationOver.command.verification.watching.closing';
const unwatch = { type: 'verification.unwatch', deviceId: DEVICE, commandId: COMMAND };

const statusAndVerification = (command: Command) => [
  commandStatusOf(command.asSnapshot()),
  verificationOf(command.asSnapshot()),
];
const written = () => requestedCommand({ session: 's1' });
const having = (...events: CommandEvent[]) => {
  const command = written();
  for (const event of events) command.send(event);
  return command;
};
const timedOut = () => {
  const command = written();
  command.fire();
  return command;
};

describe('the verification of an update', () => {
  const update = (more: object = {}, device: object = { revoked: false, reportsFirmware: true }) => {
    const manifest = { capabilities: [capability('update_firmware', more)], version: 1 };
    const facts = { manifest, device, supplement: { version: '1.5.0', url: 'https://example.com/1.5.0' } };
    return requestedCommand({ session: 's1', action: 'update_firmware', params: {}, facts } as never);
  };

  it('expects the version of the release from a hello, within 300 s after the success', () => {
    const command = update();
    expect(command.context.live.verification).toMatchObject({ expected: { firmware: '1.5.0' }, withinMs: 300_000 });
    expect(statusAndVerification(command)).toEqual(['dispatched', 'pending']);
    command.send(ackReceived('succeeded', T0 + 1));
    command.send(observed(true, T0 + 200_000, { firmware: '1.5.0' }));
    expect(statusAndVerification(command)).toEqual(['succeeded', 'verified']);
  });

  it('is mismatched by another version, and timed_out without a hello', () => {
    for (const [events, verification] of [
      [[observed(false, T0 + 2, { firmware: '1.4.2' })], 'mismatched'],
      [[], 'timed_out'],
    ] as const) {
      const command = update();
      command.send(ackReceived('succeeded', T0 + 1));
      for (const event of events) command.send(event);
      command.fire();
      expect(statusAndVerification(command)).toEqual(['succeeded', verification]);
    }
  });

  it('takes verify_within_s and expectedState of the manifest', () => {
    expect(update({ verify_within_s: 40 }).context.live.verification.withinMs).toBe(40_000);
    expect(update({ expectedState: { slot: 'b' } }).context.live.verification).toMatchObject({
      expected: { slot: 'b' },
      withinMs: 10_000,
    });
  });

  it('is unverifiable for a device that has not reported a version', () => {
    expect(statusAndVerification(update({}, { revoked: false }))).toEqual(['dispatched', 'unverifiable']);
  });
});

describe('the verification', () => {
  it.each([
    ['queued', () => requestedCommand(), 'dispatched'],
    ['written', written, 'dispatched'],
    ['acknowledged', () => having(ackReceived('accepted', T0 + 1)), 'acknowledged'],
    ['in progress', () => having(ackReceived('in_progress', T0 + 1)), 'in_progress'],
    ['succeeded', () => having(ackReceived('succeeded', T0 + 1)), 'succeeded'],
    ['timed out', timedOut, 'timed_out'],
  ] as const)('of a command that is %s succeeds with the expected state', (_, make, status) => {
    const command = make();
    const step = command.send(observed(true, T0 + 2_000));
    expect(statusAndVerification(command)).toEqual([status, 'verified']);
    expect(step.outputs).toEqual([
      unwatch,
      expect.objectContaining({ type: 'command.changed', status, verification: 'verified', at: T0 + 2_000 }),
    ]);
    expect(command.context.live.verification).toMatchObject({ observed: { brightness: 70 }, checkedAt: T0 + 2_000 });
    expect(command.send(observed(false, T0 + 3_000))).toEqual(NOTHING);
  });

  it('is kept when the command succeeds or fails afterwards', () => {
    for (const word of ['succeeded', 'failed'] as const) {
      const command = having(observed(true, T0 + 1));
      const step = command.send(ackReceived(word, T0 + 2));
      expect(statusAndVerification(command)).toEqual([word, 'verified']);
      expect(step.outputs).toMatchObject([{ type: 'command.changed', status: word, verification: 'verified' }]);
      expect(command.running.size).toBe(0);
    }
  });

  it('has verify_within_s from the success on', () => {
    const command = having(ackReceived('accepted', T0 + 1));
    const step = command.send(ackReceived('succeeded', T0 + 20_000));
    expect(step.outputs).toMatchObject([{ type: 'command.changed', status: 'succeeded', verification: 'pending' }]);
    expect(step.timers).toContainEqual({ set: VERIFY_TIMER, event: VERIFY_TIMER, delay: 10_000 });
  });

  it('does not count that time before the success', () => {
    for (const command of [
      having(ackReceived('accepted', T0 + 1)),
      having(ackReceived('in_progress', T0 + 1)),
      timedOut(),
    ]) {
      expect(command.value).toMatchObject({ verification: { watching: 'open' } });
      expect([...command.running.keys()]).not.toContain(VERIFY_TIMER);
    }
  });

  it('uses the verify_within_s of the capability', () => {
    const slow = capability('set_brightness', { ...dimmer, verify_within_s: 90 });
    const command = requestedCommand({ session: 's1', facts: { manifest: { capabilities: [slow], version: 1 } } });
    command.send(ackReceived('succeeded', T0 + 1));
    expect([...command.running.values()]).toEqual([{ event: VERIFY_TIMER, dueAt: T0 + 90_001 }]);
  });

  it('is timed_out without a state by then', () => {
    const command = having(ackReceived('succeeded', T0 + 1));
    const step = command.fire();
    expect(statusAndVerification(command)).toEqual(['succeeded', 'timed_out']);
    expect(step.outputs).toMatchObject([unwatch, { status: 'succeeded', verification: 'timed_out', at: T0 + 10_001 }]);
    expect(command.context.live.verification).toMatchObject({ observed: null, checkedAt: T0 + 10_001 });
  });

  it.each([
    ['before', [observed(false, T0 + 1), ackReceived('succeeded', T0 + 2)]],
    ['after', [ackReceived('succeeded', T0 + 1), observed(false, T0 + 2)]],
  ] as const)('is mismatched when another state arrived %s the success', (_, events) => {
    const command = having(...events);
    expect(statusAndVerification(command)).toEqual(['succeeded', 'pending']);
    const step = command.fire();
    expect(statusAndVerification(command)).toEqual(['succeeded', 'mismatched']);
    expect(step.outputs).toMatchObject([unwatch, { status: 'succeeded', verification: 'mismatched' }]);
    expect(command.context.live.verification.observed).toEqual({ brightness: 20 });
  });

  it('is also mismatched by a state without the expected properties', () => {
    const command = having(observed(false, T0 + 1, {}), ackReceived('succeeded', T0 + 2));
    command.fire();
    expect(statusAndVerification(command)).toEqual(['succeeded', 'mismatched']);
  });

  it('is verified by a match after a mismatch', () => {
    const command = having(observed(false, T0 + 1), ackReceived('succeeded', T0 + 2), observed(true, T0 + 3));
    expect(statusAndVerification(command)).toEqual(['succeeded', 'verified']);
    expect(command.running.size).toBe(0);
  });

  it('keeps the observed state and its time, without a notification while it is undecided', () => {
    const command = written();
    expect(command.send(observed(false, T0 + 5))).toEqual({ same: false, outputs: [], timers: [] });
    expect(command.context.live.verification).toMatchObject({
      status: 'pending',
      observed: { brightness: 20 },
      checkedAt: T0 + 5,
    });
  });

  it('ignores the state of another device', () => {
    for (const matches of [true, false]) {
      expect(written().send({ ...observed(matches, T0 + 1), deviceId: uuid(99) })).toEqual(NOTHING);
    }
  });

  it.each([
    ['failed', (): Command => having(ackReceived('failed', T0 + 9))],
    [
      'expired',
      (): Command => {
        const command = requestedCommand();
        command.fire();
        return command;
      },
    ],
    [
      'cancelled',
      (): Command => {
        const command = requestedCommand();
        command.send({ type: 'device.revoked', at: T0 + 9, deviceId: DEVICE });
        return command;
      },
    ],
  ] as const)('stays pending when the command %s', (status, make) => {
    const command = make();
    expect(statusAndVerification(command)).toEqual([status, 'pending']);
    expect([command.context.live.verification.checkedAt, command.running.size]).toEqual([null, 0]);
  });

  it('ends with its watch when the command fails', () => {
    const step = written().send(ackReceived('failed', T0 + 9));
    expect(typesOf(step.outputs)).toEqual(['verification.unwatch', 'command.changed']);
    expect(ofType(step.outputs, 'command.changed')).toMatchObject([{ status: 'failed', verification: 'pending' }]);
  });

  it('is unverifiable from the start without an expected state', () => {
    const command = requestedCommand({ action: 'blink', params: {}, session: 's1' });
    expect(statusAndVerification(command)).toEqual(['dispatched', 'unverifiable']);
    expect(command.context.live.verification).toMatchObject({ expected: null, checkedAt: T0 });
    command.send(ackReceived('succeeded', T0 + 1));
    expect(statusAndVerification(command)).toEqual(['succeeded', 'unverifiable']);
    expect(command.running.size).toBe(0);
  });

  it('continues while a late acknowledgement is possible, and has its time after it', () => {
    const command = timedOut();
    expect(statusAndVerification(command)).toEqual(['timed_out', 'pending']);
    command.send(ackReceived('succeeded', T0 + HOUR));
    expect(statusAndVerification(command)).toEqual(['succeeded', 'pending']);
    expect([...command.running.values()]).toEqual([{ event: VERIFY_TIMER, dueAt: T0 + HOUR + 10_000 }]);
  });

  it.each([
    [false, 'timed_out'],
    [true, 'mismatched'],
  ] as const)('ends with the deadline of a late acknowledgement (a state seen: %s)', (seen, verification) => {
    const command = timedOut();
    if (seen) command.send(observed(false, T0 + HOUR));
    const step = command.fire();
    expect(statusAndVerification(command)).toEqual(['timed_out', verification]);
    expect(step.outputs).toMatchObject([unwatch, { status: 'timed_out', verification }]);
    expect(command.context.live.verification.status).toBe(verification);
  });

  it('is unaffected by a repeated write', () => {
    const command = written();
    expect(typesOf(command.send(ready('s2', T0 + 1)).outputs)).toEqual(['command.write']);
  });
});
