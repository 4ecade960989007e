import { describe, expect, it } from 'vitest';
import { MAX_TIMEOUT_FACTOR } from '../../src/domain/command.ts';
import { commandDefinition, commandStatusOf, verificationOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import { fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';
import type { Driven, Step } from './machine-driver.ts';
import { unreached, untaken } from './random-walk.ts';
import {
  ackReceived,
  blankCommand,
  confirm,
  DEVICE,
  facts,
  HOUR,
  observed,
  ofType,
  other,
  ready,
  request,
  requester,
  T0,
  typesOf,
  uuid,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
/** An event, given its time; or the next timer when it is due. */
type Move = 'timer' | ((at: number) => CommandEvent);

const PLAN = uuid(30);
const sessions = fc.constantFrom('s1', 's2', 's3');
const moves: fc.Arbitrary<Move> = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Move>('timer') },
  {
    weight: 8,
    arbitrary: fc
      .constantFrom('accepted' as const, 'in_progress' as const, 'succeeded' as const, 'failed' as const)
      .map((word) => (at: number) => ackReceived(word, at, { result: word })),
  },
  { weight: 6, arbitrary: sessions.map((session) => (at: number) => ready(session, at)) },
  {
    weight: 3,
    arbitrary: sessions.map(
      (sessionId) =>
        (at: number): CommandEvent => ({ type: 'write.undone', at, sessionId }),
    ),
  },
  { weight: 4, arbitrary: fc.boolean().map((matches) => (at: number) => observed(matches, at)) },
  {
    weight: 6,
    arbitrary: fc
      .record({
        tokenHash: fc.constantFrom(null, 'hash of the token', 'wrong'),
        session: fc.option(sessions.map((sessionId) => ({ sessionId }))),
        disabled: fc.boolean(),
        by: fc.constantFrom(requester, other),
      })
      .map(({ tokenHash, session, disabled, by }) => (at: number) => {
        const flags = { maintenance_mode: false, commands_disabled: disabled };
        return confirm({ at, tokenHash, session, by, facts: facts({ flags }) });
      }),
  },
  { weight: 1, arbitrary: fc.constant((at: number): CommandEvent => ({ type: 'cancel', at, by: other })) },
  { weight: 1, arbitrary: fc.constant((at: number): CommandEvent => ({ type: 'refuse', at, by: other })) },
  {
    weight: 1,
    arbitrary: fc.constant((at: number): CommandEvent => ({ type: 'device.revoked', at, deviceId: DEVICE })),
  },
  { weight: 1, arbitrary: fc.constant((at: number) => ({ ...ackReceived('succeeded', at), deviceId: uuid(99) })) },
  {
    weight: 1,
    arbitrary: fc.constant((at: number): CommandEvent => ({ type: 'plan.withdrawn', at, planId: PLAN })),
  },
  { weight: 1, arbitrary: fc.constant((at: number) => request({ at })) },
);
const pauses = fc.oneof(fc.nat(2_000), fc.nat(40_000), fc.constant(25 * HOUR));
const beginnings = fc.record({
  action: fc.constantFrom(
    { action: 'set_brightness', params: { level: 70 } },
    { action: 'unlock', params: {} },
    { action: 'blink', params: {} },
    { action: 'fly', params: {} },
  ),
  session: fc.option(fc.constant('s1')),
  dryRun: fc.boolean(),
  planned: fc.boolean(),
});

/** Requested by a user or by a plan. */
function begin({ action, session, dryRun, planned }: Walk['beginning']): CommandEvent {
  const event = request({ ...action, session, facts: { dryRun } });
  const plan = planned ? { id: PLAN, stepId: 'a', compensation: null } : null;
  return { ...event, command: { ...event.command, origin: { ...event.command.origin, plan } } };
}
const walks = fc.record({
  beginning: beginnings,
  steps: fc.array(fc.record({ move: moves, pause: pauses }), { maxLength: 40 }),
});
type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

type Look = (command: Command, step: Step, before: CommandContext, at: number) => void;

/** Runs the walk and calls `look` after each step, with the state before it. */
function go({ beginning, steps }: Walk, look: Look): void {
  const command = blankCommand();
  let before = command.context;
  look(command, command.send(begin(beginning)), before, T0);
  let at = T0;
  for (const { move, pause } of steps) {
    before = command.context;
    if (move !== 'timer') {
      at += pause;
      look(command, command.send(move(at)), before, at);
    } else if (command.running.size > 0) {
      at = Math.max(at, Math.min(...[...command.running.values()].map((timer) => timer.dueAt)));
      look(command, command.fire(), before, at);
    }
  }
}

const holds = (look: () => Look) =>
  fc.assert(
    fc.property(walks, (walk) => go(walk, look())),
    runs(60),
  );

const finals = ['rejected', 'succeeded', 'failed', 'expired', 'cancelled'];

describe('for random events of a command', () => {
  it('every transition of its chart is taken', slow, () => {
    // The gateway accepts or refuses each confirmation; this transition is for a gateway that requires another one.
    const never = ['lifecycle.awaiting_confirmation: self.judged_again 1'];
    const left = untaken(commandDefinition, {
      walks,
      most: 2_500,
      go: (walk) => go(walk, () => {}),
      never: never.length,
    });
    expect(left).toEqual(never);
  });

  it('every state of its chart is reached', () => {
    const left = unreached(
      commandDefinition,
      { walks, most: 2_500, go: (walk, saw) => go(walk, ({ snapshot }) => saw(snapshot.value)) },
      blankCommand().snapshot.value,
    );
    expect(left).toEqual([]);
  });

  it('a critical command is written at most once, except after a reverted write', () => {
    holds(() => {
      let writes = 0;
      return (command, step, before) => {
        writes += ofType(step.outputs, 'command.write').length;
        if ((before.live.delivery?.writes ?? 0) > (command.context.live.delivery?.writes ?? 0)) writes -= 1;
        if (command.context.fixed.safetyClass === 'CRITICAL') expect(writes).toBeLessThanOrEqual(1);
      };
    });
  });

  it('nothing is written after a final status, after its expiry, or twice in a row to one session', () => {
    holds(() => (command, step, before, at) => {
      for (const write of ofType(step.outputs, 'command.write')) {
        expect(['submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress']).toContain(
          before.live.status,
        );
        expect(before.live.delivery?.sessionId).not.toBe(write.sessionId);
        expect(command.context.live.delivery?.sessionId).toBe(write.sessionId);
        expect(write.message.expiresAt).toBe(command.context.live.delivery?.expiresAt);
        expect(at).toBeLessThan(write.message.expiresAt);
      }
    });
  });

  it('a final status does not change, and a timeout is replaced only by a late ack', () => {
    holds(() => (command, _, before) => {
      const status = commandStatusOf(command.asSnapshot());
      if (finals.includes(before.live.status)) expect(status).toBe(before.live.status);
      if (before.live.status !== 'timed_out' || status === 'timed_out') return;
      expect(['succeeded', 'failed']).toContain(status);
      expect(command.context.live.answer.late).toBe(true);
    });
  });

  it('a decided verification does not change', () => {
    holds(() => (command, _, before) => {
      if (before.live.status !== 'submitted' && before.live.verification.status !== 'pending') {
        expect(command.context.live.verification.status).toBe(before.live.verification.status);
      }
    });
  });

  it('its outcome is published once', () => {
    holds(() => (command, step, before) => {
      const { context } = command;
      expect([context.live.status, context.live.verification.status]).toEqual([
        commandStatusOf(command.asSnapshot()),
        verificationOf(command.asSnapshot()),
      ]);
      const moved =
        context.live.status !== before.live.status ||
        context.live.verification.status !== before.live.verification.status;
      const statuses = ofType(step.outputs, 'command.changed').map(({ status, verification }) => [
        status,
        verification,
      ]);
      const isProgress = context.live.status === 'in_progress' && step.timers.length > 0;
      expect(statuses).toEqual(moved || isProgress ? [[context.live.status, context.live.verification.status]] : []);
    });
  });

  it('its confirmation is published when the wait begins and when it ends, with its deadline', () => {
    holds(() => (command, step, { fixed: { confirmation: before } }) => {
      const { confirmation } = command.context.fixed;
      const { status } = command.context.live;
      expect(confirmation !== null).toBe(status === 'awaiting_confirmation');
      const moved = (before === null) !== (confirmation === null);
      const expiresAt = (before ?? confirmation)?.expiresAt;
      expect(ofType(step.outputs, 'confirmation.changed')).toMatchObject(moved ? [{ status, expiresAt }] : []);
    });
  });

  it('it is watched if and only if its verification is open', () => {
    holds(() => {
      let watched = 0;
      return (command, step) => {
        for (const type of typesOf(step.outputs)) {
          if (type === 'verification.watch') watched += 1;
          if (type === 'verification.unwatch') watched -= 1;
        }
        const { verification } = command.snapshot.value as { verification: unknown };
        expect(watched).toBe(typeof verification === 'object' ? 1 : 0);
      };
    });
  });

  it('its timers are those of its states, at their deadlines', () => {
    holds(() => {
      let answerDue = 0;
      return (command, step, _, at) => {
        const { lifecycle, verification } = command.snapshot.value as Record<string, string | Record<string, string>>;
        const { confirmation, limits } = command.context.fixed;
        const { delivery } = command.context.live;
        const due = new Map([...command.running.values()].map(({ event, dueAt }) => [event.split('.')[2], dueAt]));
        const expected = new Map<string, unknown>();
        if (lifecycle === 'awaiting_confirmation') expected.set('confirmationOver', confirmation?.expiresAt);
        if (lifecycle === 'queued') expected.set('ttlOver', expect.any(Number));
        if (typeof lifecycle === 'object') {
          const firstWrittenAt = delivery?.firstWrittenAt ?? 0;
          if (step.timers.some((timer) => 'set' in timer && timer.set.includes('answerOver'))) {
            const from = lifecycle.written === 'in_progress' ? at : firstWrittenAt;
            const latest = firstWrittenAt + MAX_TIMEOUT_FACTOR * limits.timeoutMs;
            answerDue = Math.max(at, Math.min(from + limits.timeoutMs, latest));
          }
          expected.set('answerOver', answerDue);
        }
        if (lifecycle === 'timed_out')
          expected.set('lateWordOver', (command.context.live.answer.timedOutAt ?? 0) + 24 * HOUR);
        if (typeof verification === 'object' && verification.watching === 'closing') {
          expected.set('verificationOver', expect.any(Number));
        }
        expect(due).toEqual(expected);
      };
    });
  });

  it('it has a deadline while it is open or watched, which the store searches by', () => {
    holds(() => (command) => {
      const { status, verification } = commandDefinition.columns(command.asSnapshot());
      const open = ['submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress'];
      if (open.includes(status as string) || verification === 'pending')
        expect(command.running.size).toBeGreaterThan(0);
    });
  });

  it('it has a token if and only if it waits for a confirmation, which the store searches by', () => {
    holds(() => (command) => {
      const { status, token_hash } = commandDefinition.columns(command.asSnapshot());
      expect(token_hash !== null).toBe(status === 'awaiting_confirmation');
    });
  });

  it('a refusal changes nothing, and an event without a change has no other output', () => {
    holds(() => (_, step) => {
      const refused = typesOf(step.outputs).includes('refused');
      if (refused) expect(step).toMatchObject({ same: true, timers: [], outputs: [{ type: 'refused' }] });
      if (step.same && !refused) expect(step).toEqual({ same: true, outputs: [], timers: [] });
    });
  });

  it('it behaves the same after it was stored and loaded', () => {
    holds(() => (command) => {
      const { value, context } = command;
      command.reload();
      expect(command.value).toEqual(value);
      expect(command.context).toEqual(context);
    });
  });
});
