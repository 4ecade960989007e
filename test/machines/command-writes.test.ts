import { describe, expect, it } from 'vitest';
import type { CommandEvent } from '../../src/machines/command-types.ts';
import {
  ANSWER_TIMER,
  finalPlaces,
  having,
  inStatus,
  MINUTE,
  status,
  TTL_TIMER,
  undone,
  type Where,
  write,
  written,
} from './command-fixtures.ts';
import { NOTHING } from './machine-driver.ts';
import { ackReceived, ofType, PREVIEW, ready, request, requestedCommand, requester, T0, typesOf } from './samples.ts';

const confirmed = (): Extract<CommandEvent, { type: 'confirm' }> => ({
  type: 'confirm',
  at: T0 + 1,
  by: requester,
  tokenHash: 'hash of the token',
  rules: { confirm_by: ['requester'], agent_confirm_by: ['person'], confirm_ttl_s: 300 },
  facts: request().facts,
  session: null,
  effect: { preview: PREVIEW, isNamed: null },
});

describe('a repeated write', () => {
  it('happens once per session while the command is open and not expired, and starts no timer', () => {
    for (const where of ['dispatched', 'acknowledged', 'in_progress'] as const) {
      const command = inStatus[where]();
      expect(command.send(ready('s1', T0 + 10)), where).toEqual(NOTHING);
      const step = command.send(ready('s2', T0 + 10));
      expect(step).toMatchObject({ same: false, timers: [] });
      expect(typesOf(step.outputs)).toEqual(['command.write']);
      expect(command.context.live.delivery).toMatchObject({ sessionId: 's2', writes: 2, firstWrittenAt: T0 });
      expect(command.send(ready('s2', T0 + 11))).toEqual(NOTHING);
      expect(typesOf(command.send(ready('s3', T0 + 12)).outputs)).toEqual(['command.write']);
    }
  });

  it('repeats the same message', () => {
    const command = requestedCommand({ session: 's1' });
    expect(command.send(ready('s2', T0 + 10)).outputs).toEqual([write('s2')]);
  });

  it('ends when the command expires', () => {
    const command = () => written({ ttlS: 2 });
    expect(typesOf(command().send(ready('s2', T0 + 1_999)).outputs)).toEqual(['command.write']);
    expect(command().send(ready('s2', T0 + 2_000))).toEqual(NOTHING);
  });

  it.each([...finalPlaces, 'timed_out', 'awaiting_confirmation'] as Where[])('does not happen in %s', (where) => {
    expect(inStatus[where]().send(ready('s2', T0 + 10))).toEqual(NOTHING);
  });
});

describe('a write that failed', () => {
  it('returns the command to the queue, with the rest of its ttl', () => {
    const command = requestedCommand({ session: 's1' });
    const step = command.send(undone('s1', T0 + 40_000));
    expect(command.value).toEqual({ lifecycle: 'queued', verification: { watching: 'open' } });
    expect(step.outputs).toEqual([]);
    expect(step.timers).toEqual([{ clear: ANSWER_TIMER }, { set: TTL_TIMER, event: TTL_TIMER, delay: 20_000 }]);
    expect(command.context.live.delivery).toEqual({
      dispatchedAt: T0,
      expiresAt: T0 + MINUTE,
      firstWrittenAt: null,
      sessionId: null,
      writes: 0,
    });
    expect(command.send(ready('s2', T0 + 50_000)).outputs).toEqual([write('s2')]);
    expect(command.context.live.delivery).toMatchObject({ firstWrittenAt: T0 + 50_000, writes: 1 });
    expect([...command.running.values()]).toEqual([{ event: ANSWER_TIMER, dueAt: T0 + 80_000 }]);
  });

  it('expires the command after its ttl', () => {
    const command = requestedCommand({ session: 's1', timeoutS: 120 });
    const step = command.send(undone('s1', T0 + 70_000));
    expect(step.timers.at(-1)).toEqual({ set: TTL_TIMER, event: TTL_TIMER, delay: 0 });
    command.fire();
    expect(status(command)).toBe('expired');
  });

  it('of another session than the last one changes nothing', () => {
    expect(written().send(undone('s2', T0 + 1))).toEqual(NOTHING);
    const twice = having(written(), ready('s2', T0 + 1));
    expect(twice.send(undone('s1', T0 + 2))).toEqual(NOTHING);
  });

  it('after an earlier one leaves the command as it is, and may happen again in its session', () => {
    for (const where of ['dispatched', 'acknowledged', 'in_progress'] as const) {
      const twice = having(inStatus[where](), ready('s2', T0 + 10));
      const { value } = twice;
      expect(twice.send(undone('s2', T0 + 11)), where).toMatchObject({ same: false, outputs: [], timers: [] });
      expect(twice.value).toEqual(value);
      expect(twice.context.live.delivery).toMatchObject({ sessionId: null, firstWrittenAt: T0, writes: 1 });
      expect(typesOf(twice.send(ready('s2', T0 + 12)).outputs)).toEqual(['command.write']);
      expect(twice.send(undone('s1', T0 + 13))).toEqual(NOTHING);
    }
  });

  it('is ignored once the device has acknowledged', () => {
    expect(inStatus.acknowledged().send(undone('s1', T0 + 2))).toEqual(NOTHING);
    expect(inStatus.in_progress().send(undone('s1', T0 + 2))).toEqual(NOTHING);
  });
});

describe('a critical command', () => {
  it('is written only once', () => {
    const command = having(
      requestedCommand({ action: 'unlock', params: {} }),
      { ...confirmed(), session: { sessionId: 's1' } },
      ready('s1', T0 + 2),
    );
    expect(status(command)).toBe('dispatched');
    expect(command.context.live.delivery?.writes).toBe(1);
    expect(command.send(ready('s2', T0 + 3))).toEqual(NOTHING);
    command.send(ackReceived('in_progress', T0 + 4));
    expect(command.send(ready('s3', T0 + 5))).toEqual(NOTHING);
  });

  it('is written again if no byte of the first write was sent', () => {
    const command = having(requestedCommand({ action: 'unlock', params: {} }), {
      ...confirmed(),
      session: { sessionId: 's1' },
    });
    command.send(undone('s1', T0 + 2));
    const step = command.send(ready('s2', T0 + 3));
    expect(ofType(step.outputs, 'command.write')).toMatchObject([{ sessionId: 's2', critical: true }]);
    expect(command.send(ready('s3', T0 + 4))).toEqual(NOTHING);
  });
});
