import { describe, expect, it } from 'vitest';
import { verificationOf } from '../../src/machines/command-record.ts';
import {
  ANSWER_TIMER,
  cancel,
  changed,
  everywhere,
  finalPlaces,
  inStatus,
  MINUTE,
  revoked,
  status,
  TIMEOUT,
  TTL_TIMER,
  undone,
  watch,
  write,
  written,
} from './command-fixtures.ts';
import { NOTHING } from './machine-driver.ts';
import {
  ackReceived,
  blankCommand,
  COMMAND,
  capability,
  DEVICE,
  HOUR,
  observed,
  ofType,
  ready,
  request,
  requestedCommand,
  requester,
  T0,
  TENANT,
  uuid,
} from './samples.ts';

describe('a request', () => {
  it('is written at once if a session exists, and starts the acknowledgement timeout', () => {
    const command = blankCommand();
    const step = command.send(request({ session: 's1' }));
    expect(command.value).toEqual({ lifecycle: { written: 'dispatched' }, verification: { watching: 'open' } });
    expect(step.outputs).toEqual([write('s1'), changed('dispatched', 'pending', T0), watch]);
    expect(step.timers).toEqual([{ set: ANSWER_TIMER, event: ANSWER_TIMER, delay: TIMEOUT }]);
    expect(command.context.live.delivery).toEqual({
      dispatchedAt: T0,
      expiresAt: T0 + MINUTE,
      firstWrittenAt: T0,
      sessionId: 's1',
      writes: 1,
    });
  });

  it('is queued until its ttl without a session', () => {
    const command = blankCommand();
    const step = command.send(request());
    expect(command.value).toEqual({ lifecycle: 'queued', verification: { watching: 'open' } });
    expect(status(command)).toBe('dispatched');
    expect(step.outputs).toEqual([changed('dispatched', 'pending', T0), watch]);
    expect(step.timers).toEqual([{ set: TTL_TIMER, event: TTL_TIMER, delay: MINUTE }]);
    expect(command.context.live.delivery).toMatchObject({ firstWrittenAt: null, sessionId: null, writes: 0 });
  });

  it('is stored completely', () => {
    const { context } = requestedCommand({ ttlS: 5, timeoutS: 7 });
    expect(context).toMatchObject({
      fixed: {
        id: COMMAND,
        tenantId: TENANT,
        deviceId: DEVICE,
        action: 'set_brightness',
        params: { level: 70 },
        messageId: uuid(20),
        origin: { requestId: 'request-1', plan: null },
        requestedBy: requester,
        requestedAt: T0,
        safetyClass: 'NORMAL',
        manifestVersion: 7,
        limits: { ttlMs: 5_000, timeoutMs: 7_000 },
        confirmedBy: null,
        refusal: null,
        confirmation: null,
      },
      live: { verification: { status: 'pending', expected: { brightness: 70 }, withinMs: 10_000 } },
    });
  });

  it('refused by the gateway is rejected with its code, without a verification', () => {
    const command = blankCommand();
    const step = command.send(request({ params: { level: 'bright' }, ttlS: 9 }));
    expect(command.value).toEqual({ lifecycle: 'rejected', verification: 'unverifiable' });
    const refusal = { code: 'PARAMS_INVALID', detail: "The parameters of 'set_brightness' are not valid." };
    expect(step).toEqual({
      same: false,
      outputs: [{ ...changed('rejected', 'unverifiable', T0), refusal }],
      timers: [],
    });
    expect(command.context).toMatchObject({
      fixed: {
        refusal: { code: 'PARAMS_INVALID', detail: "The parameters of 'set_brightness' are not valid." },
        safetyClass: 'NORMAL',
        limits: { ttlMs: 9_000, timeoutMs: 30_000 },
      },
      live: { status: 'rejected', delivery: null },
    });
  });

  it.each([
    ['an unknown action', { action: 'fly' }, 'ACTION_NOT_IN_MANIFEST'],
    ['no manifest', { facts: { manifest: null } }, 'MANIFEST_NOT_FOUND'],
    ['a revoked device', { facts: { device: { revoked: true } } }, 'DEVICE_REVOKED'],
    ['a suspended tenant', { facts: { tenant: { suspended: true } } }, 'TENANT_SUSPENDED'],
    ['a ttl out of range', { ttlS: 86_401 }, 'VALIDATION_FAILED'],
    ['a timeout out of range', { timeoutS: 3_601 }, 'VALIDATION_FAILED'],
    ["a critical action's ttl over 300 s", { action: 'unlock', params: {}, ttlS: 301 }, 'VALIDATION_FAILED'],
  ])('with %s is rejected', (_, more, code) => {
    const command = requestedCommand(more as never);
    expect(status(command)).toBe('rejected');
    expect(command.context.fixed.refusal?.code).toBe(code);
  });

  it('has neither class nor version without a manifest', () => {
    expect(requestedCommand({ facts: { manifest: null } }).context).toMatchObject({
      fixed: { safetyClass: null, manifestVersion: null },
    });
  });

  it('is checked for the requested action, ignoring the action in the facts, and is never confirmed yet', () => {
    const command = requestedCommand({
      action: 'unlock',
      params: {},
      facts: { action: 'blink', params: {}, confirmed: true },
    });
    expect(status(command)).toBe('awaiting_confirmation');
  });

  it('is accepted once', () => {
    for (const where of everywhere) expect(inStatus[where]().send(request()), where).toEqual(NOTHING);
  });
});

describe('a queued command', () => {
  it('is written when the subscription is granted', () => {
    const command = requestedCommand();
    const step = command.send(ready('s2', T0 + 5_000));
    expect(step.outputs).toEqual([write('s2')]);
    expect(step.timers).toEqual([{ clear: TTL_TIMER }, { set: ANSWER_TIMER, event: ANSWER_TIMER, delay: TIMEOUT }]);
    expect(command.context.live.delivery).toEqual({
      dispatchedAt: T0,
      expiresAt: T0 + MINUTE,
      firstWrittenAt: T0 + 5_000,
      sessionId: 's2',
      writes: 1,
    });
  });

  it('is not written after its ttl, even before the timer has fired', () => {
    expect(requestedCommand().send(ready('s2', T0 + MINUTE - 1)).outputs).toEqual([write('s2')]);
    expect(requestedCommand().send(ready('s2', T0 + MINUTE))).toEqual(NOTHING);
  });

  it('expires when it was not written within its ttl', () => {
    const command = requestedCommand({ ttlS: 5 });
    const step = command.fire();
    expect(status(command)).toBe('expired');
    expect(step.outputs).toEqual([
      { type: 'verification.unwatch', deviceId: DEVICE, commandId: COMMAND },
      changed('expired', 'pending', T0 + 5_000),
    ]);
    expect(command.running.size).toBe(0);
  });

  it('is cancelled by its caller, and when its device is revoked', () => {
    for (const event of [cancel(T0 + 1), revoked(T0 + 1)]) {
      const command = requestedCommand();
      const step = command.send(event);
      expect(status(command)).toBe('cancelled');
      expect(ofType(step.outputs, 'command.changed')).toEqual([changed('cancelled', 'pending', T0 + 1)]);
      expect(step.timers).toEqual([{ clear: TTL_TIMER }]);
    }
  });

  it('ignores an acknowledgement before it was written', () => {
    const command = inStatus.queued();
    expect(command.send(ackReceived('succeeded', T0 + 1))).toMatchObject({ same: false, outputs: [] });
    expect(status(command)).toBe('dispatched');
    expect(command.context.live.answer).toMatchObject({ strayWords: 1, result: null });
  });
});

describe('a written command', () => {
  it('changes with the acknowledgements of its device', () => {
    const command = written();
    expect(ofType(command.send(ackReceived('accepted', T0 + 1)).outputs, 'command.changed')).toEqual([
      changed('acknowledged', 'unverifiable', T0 + 1),
    ]);
    expect(
      ofType(command.send(ackReceived('in_progress', T0 + 2, { progress: 10 })).outputs, 'command.changed'),
    ).toEqual([{ ...changed('in_progress', 'unverifiable', T0 + 2), progress: 10 }]);
    expect(command.context.live.answer.progress).toBe(10);
    expect(command.send(ackReceived('in_progress', T0 + 3, { progress: 50 })).outputs).toEqual([
      { ...changed('in_progress', 'unverifiable', T0 + 3), progress: 50 },
    ]);
    expect(command.context.live.answer.progress).toBe(50);
    const step = command.send(ackReceived('succeeded', T0 + 4, { result: { took: 3 } }));
    expect(step.outputs).toEqual([{ ...changed('succeeded', 'unverifiable', T0 + 4), progress: 50 }]);
    expect(step.timers).toEqual([{ clear: ANSWER_TIMER }]);
    expect(command.context.live.answer).toMatchObject({ progress: 50, result: { took: 3 }, error: null, late: false });
  });

  it.each([
    ['dispatched', 'succeeded'],
    ['dispatched', 'failed'],
    ['dispatched', 'in_progress'],
    ['acknowledged', 'succeeded'],
    ['acknowledged', 'failed'],
    ['acknowledged', 'in_progress'],
    ['in_progress', 'succeeded'],
    ['in_progress', 'failed'],
  ] as const)('in %s becomes %s on that acknowledgement', (where, word) => {
    const command = inStatus[where]();
    command.send(ackReceived(word, T0 + 5, { error: 'e' }));
    expect(status(command)).toBe(word);
    expect(command.context.live.answer.error).toBe('e');
  });

  it.each(['acknowledged', 'in_progress'] as const)('in %s is not changed back by a late "accepted"', (where) => {
    expect(inStatus[where]().send(ackReceived('accepted', T0 + 5))).toEqual(NOTHING);
  });

  it('ignores the acknowledgements of other devices', () => {
    for (const word of ['accepted', 'in_progress', 'succeeded', 'failed'] as const) {
      expect(written().send({ ...ackReceived(word, T0 + 1), deviceId: uuid(99) })).toEqual(NOTHING);
    }
  });

  it('times out a fixed time after the first write without progress, whatever else was received or written', () => {
    const command = written({ timeoutS: 20 });
    for (const event of [ackReceived('accepted', T0 + 1), ready('s2', T0 + 10_000)]) {
      expect(command.send(event).timers).toEqual([]);
    }
    expect([...command.running.values()]).toEqual([{ event: ANSWER_TIMER, dueAt: T0 + 20_000 }]);
    const step = command.fire(5);
    expect(status(command)).toBe('timed_out');
    expect(step.outputs).toEqual([changed('timed_out', 'unverifiable', T0 + 20_005)]);
    expect(command.context.live.answer.timedOutAt).toBe(T0 + 20_005);
  });

  it('has its timeout again from each in_progress on, of the first and of later ones', () => {
    const command = written({ timeoutS: 20 });
    for (const ms of [19_000, 38_000]) {
      const step = command.send(ackReceived('in_progress', T0 + ms));
      expect(step.timers).toEqual([{ clear: ANSWER_TIMER }, { set: ANSWER_TIMER, event: ANSWER_TIMER, delay: 20_000 }]);
    }
    expect(command.send(ready('s2', T0 + 39_000)).timers).toEqual([]);
    command.fire();
    expect(status(command)).toBe('timed_out');
    expect(command.context.live.answer.timedOutAt).toBe(T0 + 58_000);
  });

  it('times out at the latest ten times timeout_s after the first write', () => {
    const command = written({ timeoutS: 20 });
    const delays = [];
    for (let ms = 15_000; ms < 200_000; ms += 15_000) {
      const { timers } = command.send(ackReceived('in_progress', T0 + ms));
      delays.push(...timers.flatMap((timer) => ('set' in timer ? [timer.delay] : [])));
    }
    expect(delays.slice(-3)).toEqual([20_000, 20_000, 5_000]);
    command.fire();
    expect(status(command)).toBe('timed_out');
    expect(command.context.live.answer.timedOutAt).toBe(T0 + 200_000);
  });

  it('is not renewed by progress that arrives after that, before the timer has fired', () => {
    const step = written({ timeoutS: 20 }).send(ackReceived('in_progress', T0 + 300_000));
    expect(step.timers).toContainEqual({ set: ANSWER_TIMER, event: ANSWER_TIMER, delay: 0 });
  });

  it.each([
    ['update_firmware', {}, 600],
    ['calibrate', {}, 300],
    ['start_program', {}, 300],
    ['Start-Program', {}, 300],
    ['blink', {}, 30],
    ['blink', { timeout_s: 90 }, 90],
    ['calibrate', { timeout_s: 5 }, 5],
  ])('%s of a manifest with %j has a timeout of %i s, unless the request names one', (action, more, timeoutS) => {
    const facts = { manifest: { capabilities: [capability(action, more)], version: 1 } };
    const limits = (request: object) =>
      requestedCommand({ action, params: {}, facts, ...request }).context.fixed.limits.timeoutMs;
    expect(limits({})).toBe(timeoutS * 1_000);
    expect(limits({ timeoutS: 7 })).toBe(7_000);
  });

  it('times out when its device is revoked', () => {
    for (const where of ['dispatched', 'acknowledged', 'in_progress'] as const) {
      const command = inStatus[where]();
      command.send(revoked(T0 + 9));
      expect(status(command), where).toBe('timed_out');
    }
  });

  it('cannot be cancelled', () => {
    expect(inStatus.acknowledged().send(cancel(T0 + 2)).outputs).toEqual([
      {
        type: 'refused',
        refusal: { code: 'ILLEGAL_TRANSITION', detail: 'The command is acknowledged and cannot be cancelled.' },
      },
    ]);
  });
});

describe('a command that timed out', () => {
  it.each(['succeeded', 'failed'] as const)('still becomes %s on a late acknowledgement', (word) => {
    const command = inStatus.timed_out();
    const at = T0 + TIMEOUT + 24 * HOUR;
    command.send(ackReceived(word, at, { result: 1 }));
    expect(status(command)).toBe(word);
    expect(command.context.live.answer).toMatchObject({ late: true, result: 1 });
    expect(command.running.size).toBe(0);
  });

  it('ignores acknowledgements after 24 h, even before the timer has fired', () => {
    const command = inStatus.timed_out();
    command.send(ackReceived('succeeded', T0 + TIMEOUT + 24 * HOUR + 1));
    expect(status(command)).toBe('timed_out');
    expect(command.context.live.answer).toMatchObject({ late: false, strayWords: 1 });
  });

  it('is closed after 24 h', () => {
    const command = inStatus.timed_out();
    expect([...command.running.values()]).toEqual([expect.objectContaining({ dueAt: T0 + TIMEOUT + 24 * HOUR })]);
    const step = command.fire();
    expect(step.outputs).toEqual([]);
    expect(command.value).toEqual({ lifecycle: 'closed', verification: 'unverifiable' });
    expect(status(command)).toBe('timed_out');
  });

  it('ignores other late acks', () => {
    const command = inStatus.timed_out();
    command.send(ackReceived('accepted', T0 + HOUR));
    command.send(ackReceived('in_progress', T0 + HOUR));
    expect(status(command)).toBe('timed_out');
    expect(command.context.live.answer.strayWords).toBe(2);
  });

  it('still accepts a late ack after its device is revoked', () => {
    expect(inStatus.timed_out().send(revoked(T0 + HOUR))).toEqual(NOTHING);
  });
});

describe('a final status', () => {
  it.each(finalPlaces)('%s is changed by no acknowledgement, which is counted up to a limit', (where) => {
    const command = inStatus[where]();
    const before = status(command);
    for (const word of ['accepted', 'in_progress', 'succeeded', 'failed'] as const) {
      const step = command.send(ackReceived(word, T0 + 60 * HOUR, { result: 'late' }));
      expect(step).toEqual({ same: false, outputs: [], timers: [] });
    }
    expect(status(command)).toBe(before);
    expect(command.context.live.answer.strayWords).toBe(4);
    expect(command.context.live.answer.result).toBeNull();
    for (let n = 4; n < 32; n++) command.send(ackReceived('failed', T0 + 60 * HOUR));
    expect(command.send(ackReceived('failed', T0 + 60 * HOUR))).toEqual(NOTHING);
    expect(command.context.live.answer.strayWords).toBe(32);
  });

  it.each(finalPlaces)('%s does not count acknowledgements of another device', (where) => {
    expect(inStatus[where]().send({ ...ackReceived('failed', T0 + 1), deviceId: uuid(99) })).toEqual(NOTHING);
  });

  it.each(finalPlaces)('%s refuses a cancellation and has no timer', (where) => {
    const command = inStatus[where]();
    const word = where === 'closed' ? 'timed_out' : where;
    expect(command.send(cancel(T0 + 1))).toEqual({
      same: true,
      outputs: [
        {
          type: 'refused',
          refusal: { code: 'ILLEGAL_TRANSITION', detail: `The command is ${word} and cannot be cancelled.` },
        },
      ],
      timers: [],
    });
    expect(command.running.size).toBe(0);
    expect(command.send(revoked(T0 + 1))).toEqual(NOTHING);
    expect(command.send(undone('s1', T0 + 1))).toEqual(NOTHING);
  });
});

describe('the stored status fields', () => {
  it.each(everywhere)('match the state value in %s', (where) => {
    const command = inStatus[where]();
    expect(command.context.live.status).toBe(status(command));
    expect(command.context.live.verification.status).toBe(verificationOf(command.asSnapshot()));
  });

  it('survive a reload in every status', () => {
    for (const where of everywhere) {
      const command = inStatus[where]();
      const { value, context } = command;
      command.reload();
      expect(command.value, where).toEqual(value);
      expect(command.context, where).toEqual(context);
      expect(command.send(observed(true, T0 + 2)), where).toEqual(NOTHING);
    }
  });
});
