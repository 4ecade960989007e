import { describe, expect, it } from 'vitest';
import { MAX_CRITICAL_TTL_S } from '../../src/domain/command.ts';
import type { Compensation } from '../../src/domain/plan.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { commandStatusOf } from '../../src/machines/command-record.ts';
import type { Approval, CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import type { Driven } from './machine-driver.ts';
import {
  ackReceived,
  blankCommand,
  blinker,
  COMMAND,
  capability,
  confirm,
  DEVICE,
  dimmer,
  facts,
  observed,
  ofType,
  other,
  request,
  requester,
  T0,
  unlocker,
  uuid,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
const PLAN = uuid(30);
const UNLOCK: Compensation = { action: 'unlock', params: {} };
const manifest = {
  capabilities: [dimmer, unlocker, blinker, capability('open', { safetyClass: 'CRITICAL' })],
  version: 7,
};

interface Of {
  action?: string;
  params?: JsonObject;
  compensation?: Compensation | null;
  approval?: Approval;
  session?: string;
  version?: number;
}

/** A command that belongs to a plan. */
function ofPlan({ action = 'blink', params = {}, compensation = null, approval, session, version = 7 }: Of = {}) {
  const command = blankCommand();
  const event = request({ action, params, ...(session !== undefined && { session }), ttlS: MAX_CRITICAL_TTL_S });
  const step = command.send({
    ...event,
    facts: facts({ manifest: { ...manifest, version } }),
    command: { ...event.command, origin: { requestId: 'r', plan: { id: PLAN, stepId: 'a', compensation } } },
    ...(approval && { approval }),
  });
  return { command, step };
}

const planMessages = (outputs: Parameters<typeof ofType>[0]) =>
  ofType(outputs, 'actor.tell').map(({ to, event }) => {
    expect(to).toEqual({ kind: 'plan', id: PLAN });
    const { status, verification } = event as Extract<typeof event, { type: 'command.moved' }>;
    return [status, verification];
  });
const status = (command: Command) => commandStatusOf(command.asSnapshot());

describe('a command of a plan', () => {
  it('notifies its plan when it is dispatched and when its verification is decided', () => {
    const { command, step } = ofPlan({ action: 'set_brightness', params: { level: 70 }, session: 's1' });
    expect(planMessages(step.outputs)).toEqual([['dispatched', 'pending']]);
    expect(ofType(step.outputs, 'actor.tell')).toMatchObject([
      { event: { type: 'command.moved', commandId: COMMAND, critical: false, refusal: null } },
    ]);
    expect(planMessages(command.send(ackReceived('accepted', T0 + 1)).outputs)).toEqual([]);
    expect(planMessages(command.send(ackReceived('succeeded', T0 + 2)).outputs)).toEqual([]);
    expect(planMessages(command.send(observed(true, T0 + 3)).outputs)).toEqual([['succeeded', 'verified']]);
  });

  it('notifies its plan once if the state arrives before the acknowledgement', () => {
    const { command } = ofPlan({ action: 'set_brightness', params: { level: 70 }, session: 's1' });
    expect(planMessages(command.send(observed(true, T0 + 1)).outputs)).toEqual([]);
    expect(planMessages(command.send(ackReceived('succeeded', T0 + 2)).outputs)).toEqual([['succeeded', 'verified']]);
  });

  it('notifies its plan at once when it is refused, fails or times out', () => {
    expect(planMessages(ofPlan({ action: 'fly' }).step.outputs)).toEqual([['rejected', 'unverifiable']]);
    const failing = ofPlan({ session: 's1' }).command;
    expect(planMessages(failing.send(ackReceived('failed', T0 + 1)).outputs)).toEqual([['failed', 'unverifiable']]);
    const silent = ofPlan({ action: 'set_brightness', params: { level: 70 }, session: 's1' }).command;
    expect(planMessages(silent.fire().outputs)).toEqual([['timed_out', 'pending']]);
  });

  it('sends the error text of its device to its plan', () => {
    const { command } = ofPlan({ session: 's1' });
    const [message] = ofType(
      command.send(ackReceived('failed', T0 + 1, { error: { message: 'the\ndoor is open' } })).outputs,
      'actor.tell',
    );
    expect(message?.event).toMatchObject({ type: 'command.moved', deviceError: 'the door is open' });
  });

  it('sends no notification without a plan', () => {
    expect(ofType(blankCommand().send(request({ session: 's1' })).outputs, 'actor.tell')).toEqual([]);
  });

  it.each([
    ['that waits for its confirmation', 'unlock', undefined],
    ['that is not written yet', 'blink', undefined],
  ])('%s is cancelled by its plan, and by no other plan', (_, action, session) => {
    const { command } = ofPlan({ action, ...(session !== undefined && { session }) });
    expect(command.send({ type: 'plan.withdrawn', at: T0 + 1, planId: uuid(31) }).same).toBe(true);
    expect(planMessages(command.send({ type: 'plan.withdrawn', at: T0 + 1, planId: PLAN }).outputs)).toEqual([
      ['cancelled', 'unverifiable'],
    ]);
  });

  it('that may have reached its device is not cancelled', () => {
    const { command } = ofPlan({ session: 's1' });
    expect(command.send({ type: 'plan.withdrawn', at: T0 + 1, planId: PLAN }).same).toBe(true);
  });
});

describe('a step whose compensation is critical', () => {
  it('requires a confirmation of both in advance, for any class of the step', () => {
    const { command } = ofPlan({ compensation: UNLOCK });
    expect(status(command)).toBe('awaiting_confirmation');
    expect(command.context.fixed.confirmation?.reason).toBe(
      "Its compensation 'unlock' is critical and needs confirmation.",
    );
    expect(command.context.fixed.origin.plan?.compensation).toEqual(UNLOCK);
    const both = ofPlan({ action: 'open', compensation: UNLOCK }).command;
    expect(both.context.fixed.confirmation?.reason).toMatch(/^'open' is critical.* compensation 'unlock' is critical/);
    command.send(confirm({ facts: facts({ action: 'blink', params: {}, manifest }) }));
    expect([status(command), command.context.fixed.confirmedBy]).toEqual(['dispatched', requester]);
  });

  it('requires no confirmation if the compensation is not critical, or missing', () => {
    for (const compensation of [
      { action: 'blink', params: {} },
      { action: 'fly', params: {} },
    ]) {
      const { command } = ofPlan({ compensation });
      expect([status(command), command.context.fixed.origin.plan?.compensation]).toEqual(['dispatched', null]);
    }
  });

  it('is refused by its own rules before a confirmation is requested', () => {
    expect(status(ofPlan({ action: 'fly', compensation: UNLOCK }).command)).toBe('rejected');
  });
});

describe('a compensation that was confirmed in advance', () => {
  const approved = (): Approval => {
    const { command } = ofPlan({ compensation: UNLOCK });
    command.send(confirm({ by: other, facts: facts({ action: 'blink', params: {}, manifest }) }));
    return command.context.fixed;
  };

  it('is dispatched without another confirmation, for the same principal', () => {
    const { command } = ofPlan({ action: 'unlock', approval: approved(), session: 's1' });
    expect([status(command), command.context.fixed.confirmedBy]).toEqual(['dispatched', other]);
  });

  it('is checked by the gateway again', () => {
    const { command } = ofPlan({ action: 'unlock', params: { force: true }, approval: approved() });
    expect(status(command)).not.toBe('dispatched');
  });

  const forged: [string, (approval: Approval) => Of][] = [
    ['nobody confirmed', (approval) => ({ approval: { ...approval, confirmedBy: null } })],
    ['another action', (approval) => ({ action: 'open', approval })],
    ['another device', (approval) => ({ approval: { ...approval, deviceId: uuid(99) } })],
    ['another tenant', (approval) => ({ approval: { ...approval, tenantId: uuid(99) } })],
    ['a manifest that has changed', (approval) => ({ approval, version: 8 })],
    ['a step that covered nothing', (approval) => ({ approval: withPlan(approval, { compensation: null }) })],
    ['another plan', (approval) => ({ approval: withPlan(approval, { id: uuid(31) }) })],
    ['another step', (approval) => ({ approval: withPlan(approval, { stepId: 'b' }) })],
    ['no plan', (approval) => ({ approval: { ...approval, origin: { requestId: 'r', plan: null } } })],
    [
      'other parameters',
      (approval) => ({ approval: withPlan(approval, { compensation: { action: 'unlock', params: { a: 1 } } }) }),
    ],
  ];
  const withPlan = (approval: Approval, more: object): Approval =>
    ({ ...approval, origin: { requestId: 'r', plan: { ...approval.origin.plan, ...more } } }) as Approval;

  it.each(forged)('requires its own confirmation if the approval is for %s', (_, of) => {
    const { command } = ofPlan({ action: 'unlock', session: 's1', ...of(approved()) });
    expect([status(command), command.context.fixed.confirmedBy]).toEqual(['awaiting_confirmation', null]);
  });

  it('uses the approval only if it is critical, and never confirms itself', () => {
    const { command } = ofPlan({ action: 'blink', session: 's1' });
    expect([status(command), command.context.fixed.confirmedBy]).toEqual(['dispatched', null]);
    expect(command.context.fixed.deviceId).toBe(DEVICE);
  });
});
