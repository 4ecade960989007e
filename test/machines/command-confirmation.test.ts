import { describe, expect, it } from 'vitest';
import type { CommandStatus } from '../../src/domain/command.ts';
import { commandDefinition, commandStatusOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import { flatContext } from '../support/stored-context.ts';
import type { Driven, Step } from './machine-driver.ts';
import {
  ackReceived,
  blankCommand,
  COMMAND,
  confirm,
  DEVICE,
  dimmer,
  facts,
  observed,
  ofType,
  other,
  PREVIEW,
  ready,
  request,
  requestedCommand,
  requester,
  T0,
  TENANT,
  typesOf,
  unlocker,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
const TIMER = 'xstate.after.confirmationOver.command.lifecycle.awaiting_confirmation';
const status = (command: Command) => commandStatusOf(command.asSnapshot());

const LOCKED = { from: true, to: false };
const expiredWords = 'The command is expired and does not wait for a confirmation.';
const waiting = (more: object = {}) => requestedCommand({ action: 'unlock', params: {}, ...more });
const dryRun = () => requestedCommand({ facts: { dryRun: true } });

/** Expects a refusal with `code`; the command still awaits confirmation. */
function refuses(command: Command, event: CommandEvent, code: string, detail?: string): void {
  const before = command.snapshot;
  const step = command.send(event);
  expect(step).toMatchObject({ same: true, timers: [] });
  expect(step.outputs).toEqual([{ type: 'refused', refusal: { code, detail: detail ?? expect.any(String) } }]);
  expect(command.snapshot).toBe(before);
}

describe('a command that needs confirmation', () => {
  it('waits until its token expires', () => {
    const command = blankCommand();
    const step = command.send(request({ action: 'unlock', params: {}, session: 's1' }));
    expect(command.value).toEqual({ lifecycle: 'awaiting_confirmation', verification: 'unverifiable' });
    expect(typesOf(step.outputs)).toEqual(['confirmation.changed', 'command.changed']);
    expect(step.timers).toEqual([{ set: TIMER, event: TIMER, delay: 300_000 }]);
    expect(command.context).toMatchObject({
      fixed: {
        safetyClass: 'CRITICAL',
        confirmation: {
          tokenHash: 'hash of the token',
          expiresAt: T0 + 300_000,
          reason: "'unlock' is critical and needs confirmation.",
          preview: PREVIEW,
          asked: false,
        },
      },
      live: { delivery: null },
    });
  });

  it('is also a dry run of any class', () => {
    const command = dryRun();
    expect(status(command)).toBe('awaiting_confirmation');
    expect(command.value).toEqual({ lifecycle: 'awaiting_confirmation', verification: 'idle' });
    expect(command.context.fixed.confirmation).toMatchObject({ asked: true, reason: 'A dry run was requested.' });
    expect(command.context.live.verification).toMatchObject({ status: 'pending', expected: { brightness: 70 } });
  });

  it('expires with its token', () => {
    const command = waiting();
    const step = command.fire();
    expect(status(command)).toBe('expired');
    expect(ofType(step.outputs, 'command.changed')).toMatchObject([{ status: 'expired', at: T0 + 300_000 }]);
    expect(command.context.fixed.confirmation).toBeNull();
  });

  it('has no verification after it expired or was cancelled', () => {
    const expired = dryRun();
    const step = expired.fire();
    expect(typesOf(step.outputs)).toEqual(['confirmation.changed', 'command.changed']);
    expect(ofType(step.outputs, 'command.changed')).toMatchObject([{ status: 'expired', verification: 'pending' }]);
    expect(expired.context.live.verification).toMatchObject({ status: 'pending', checkedAt: null });
  });

  it.each([
    { type: 'cancel', at: T0 + 5, by: other, reason: 'too dangerous' },
    { type: 'refuse', at: T0 + 5, by: other },
    { type: 'device.revoked', at: T0 + 5, deviceId: DEVICE },
  ] satisfies CommandEvent[])('is cancelled by $type', (event) => {
    const command = waiting();
    const step = command.send(event);
    expect(status(command)).toBe('cancelled');
    expect(step.timers).toEqual([{ clear: TIMER }]);
    expect(command.context.fixed.confirmation).toBeNull();
    refuses(command, confirm(), 'CONFIRMATION_FAILED', 'The command does not wait for a confirmation.');
  });

  it.each<[string, CommandStatus, (command: Command) => Step]>([
    ['confirmed', 'dispatched', (command) => command.send(confirm())],
    ['confirmed while the device is away', 'dispatched', (command) => command.send(confirm({ session: null }))],
    ['refused', 'cancelled', (command) => command.send({ type: 'refuse', at: T0 + 10_000, by: other })],
    ['taken back', 'cancelled', (command) => command.send({ type: 'cancel', at: T0 + 10_000, by: requester })],
    [
      'left by a revoked device',
      'cancelled',
      (command) => command.send({ type: 'device.revoked', at: T0 + 10_000, deviceId: DEVICE }),
    ],
    ['left too long', 'expired', (command) => command.fire()],
  ])('reports the confirmation once when the wait begins, and once when it is %s', (_, ended, end) => {
    const command = blankCommand();
    const about = { tenantId: TENANT, deviceId: DEVICE, commandId: COMMAND, expiresAt: T0 + 300_000 };
    const asking = command.send(request({ action: 'unlock', params: {} }));
    expect(ofType(asking.outputs, 'confirmation.changed')).toEqual([
      { type: 'confirmation.changed', ...about, status: 'awaiting_confirmation', at: T0 },
    ]);
    const at = ended === 'expired' ? T0 + 300_000 : T0 + 10_000;
    expect(ofType(end(command).outputs, 'confirmation.changed')).toEqual([
      { type: 'confirmation.changed', ...about, status: ended, at },
    ]);
    expect(status(command)).toBe(ended);
    expect(command.context.fixed.confirmation).toBeNull();
  });

  it('reports nothing if no confirmation was needed', () => {
    for (const command of [
      requestedCommand(),
      requestedCommand({ session: 's1' }),
      requestedCommand({ action: 'fly' }),
    ]) {
      const step = command.send({ type: 'cancel', at: T0 + 1, by: requester });
      expect(ofType(step.outputs, 'confirmation.changed')).toEqual([]);
    }
    expect(typesOf(blankCommand().send(request()).outputs)).not.toContain('confirmation.changed');
  });

  it('ignores acknowledgements and states of its device', () => {
    const command = dryRun();
    command.send(ackReceived('succeeded', T0 + 1));
    expect(command.send(observed(true, T0 + 1)).same).toBe(true);
    expect(status(command)).toBe('awaiting_confirmation');
    expect(command.context.live.answer.strayWords).toBe(1);
  });
});

describe('a refusal', () => {
  const refuse = { type: 'refuse', at: T0 + 10_000, by: other, reason: 'Nobody is at home.' } as const;

  it('ends the command permanently, with its reason in the journal', () => {
    const command = waiting();
    const before = command.asSnapshot();
    command.send(refuse);
    expect(commandDefinition.journal(refuse, before, command.asSnapshot())).toEqual({
      data: { reason: 'Nobody is at home.' },
    });
    refuses(command, refuse, 'ILLEGAL_TRANSITION');
    refuses(command, confirm({ tokenHash: null }), 'ILLEGAL_TRANSITION');
  });

  it('does not affect commands that were confirmed or needed no confirmation, queued or written', () => {
    for (const session of [null, { sessionId: 's1' }]) {
      const confirmed = waiting();
      confirmed.send(confirm({ session }));
      refuses(confirmed, refuse, 'ILLEGAL_TRANSITION');
      refuses(requestedCommand({ session: session?.sessionId ?? null }), refuse, 'ILLEGAL_TRANSITION');
    }
  });
});

describe('a confirmation', () => {
  it('dispatches the command and starts its ttl', () => {
    const command = waiting({ ttlS: 300 });
    const step = command.send(confirm({ by: other, at: T0 + 10_000 }));
    expect(command.value).toEqual({ lifecycle: { written: 'dispatched' }, verification: 'unverifiable' });
    expect(command.context).toMatchObject({
      fixed: { confirmedBy: other, confirmation: null },
      live: {
        delivery: { dispatchedAt: T0 + 10_000, expiresAt: T0 + 310_000, firstWrittenAt: T0 + 10_000, sessionId: 's1' },
      },
    });
    expect(step.outputs).toMatchObject([
      { type: 'confirmation.changed', status: 'dispatched' },
      { type: 'command.write', critical: true, message: { issuedAt: T0 + 10_000, expiresAt: T0 + 310_000 } },
      { type: 'command.changed', status: 'dispatched' },
    ]);
    expect(step.timers[0]).toEqual({ clear: TIMER });
  });

  it('adds the computed parameters for the device, and shows them to no client', () => {
    const supplement = { level: 5, url: 'https://example.com/?signature=secret' };
    const command = dryRun();
    const step = command.send(confirm({ session: null, facts: facts({ supplement }) }));
    expect(ofType(step.outputs, 'command.write')).toEqual([]);
    const restored = commandDefinition.fromStored(flatContext(commandDefinition.toStored(command.context)));
    expect(restored.live.delivery?.supplement).toEqual(supplement);
    const [write] = ofType(command.send(ready('s2', T0 + 11_000)).outputs, 'command.write');
    expect(write?.message).toMatchObject({ params: { level: 70 }, supplement });
    expect(command.context.fixed.params).toEqual({ level: 70 });
    expect(JSON.stringify(commandDefinition.toAdminView(command.context))).not.toContain('signature');
  });

  it('queues the command without a session, and watches the expected state of a dry run', () => {
    const command = dryRun();
    const step = command.send(confirm({ session: null }));
    expect(command.value).toEqual({ lifecycle: 'queued', verification: { watching: 'open' } });
    expect(typesOf(step.outputs)).toEqual(['confirmation.changed', 'command.changed', 'verification.watch']);
    expect(command.context.fixed.confirmedBy).toEqual(requester);
  });

  it('works once', () => {
    const command = waiting();
    command.send(confirm());
    refuses(command, confirm({ at: T0 + 10_001 }), 'CONFIRMATION_FAILED');
  });

  it('covers the effect of the request, or the one that it names', () => {
    const preview = { current: { locked: true }, expected: { locked: false }, changes: { locked: LOCKED } };
    const effect = (isNamed: boolean | null) => ({ effect: { preview, isNamed } });
    const command = waiting();
    refuses(command, confirm(effect(null)), 'DRY_RUN_REQUIRED');
    refuses(command, confirm(effect(false)), 'DRY_RUN_REQUIRED');
    refuses(command, confirm({ ...effect(false), tokenHash: 'another' }), 'CONFIRMATION_FAILED');
    expect(command.send(confirm(effect(true))).same).toBe(false);
  });

  it('does not compare the name and the place of the device if a build of before has made the preview', () => {
    const device = { name: 'Front door', home_id: null, room_id: null };
    const effect = { preview: { ...PREVIEW, device }, isNamed: null };
    expect(waiting().send(confirm({ effect })).same).toBe(false);
  });

  it('without the token, or with another, is refused without consuming the token', () => {
    const command = waiting();
    refuses(command, confirm({ tokenHash: 'another' }), 'CONFIRMATION_FAILED');
    expect(command.send(confirm()).same).toBe(false);
  });

  it('is refused at the exact expiry of the token', () => {
    refuses(
      waiting(),
      confirm({ at: T0 + 300_000 }),
      'CONFIRMATION_FAILED',
      'The confirmation has expired. Request the command again.',
    );
    expect(waiting().send(confirm({ at: T0 + 299_999 })).same).toBe(false);
  });

  it('is bound to the manifest of the request', () => {
    const changed = facts({ manifest: { capabilities: [dimmer, unlocker], version: 8 } });
    refuses(
      waiting(),
      confirm({ facts: changed }),
      'CONFIRMATION_FAILED',
      "The device's manifest has changed since the request.",
    );
  });

  it('from the inbox needs no token', () => {
    const command = waiting();
    command.send(confirm({ tokenHash: null, by: other }));
    expect(status(command)).toBe('dispatched');
  });

  it('from the inbox is refused for a command that is not waiting', () => {
    const inbox = { tokenHash: null };
    const over = waiting();
    refuses(over, confirm({ ...inbox, at: T0 + 300_000 }), 'ILLEGAL_TRANSITION');
    over.fire();
    refuses(over, confirm({ ...inbox, at: T0 + 300_001 }), 'ILLEGAL_TRANSITION', expiredWords);
    const twice = waiting();
    twice.send(confirm(inbox));
    refuses(twice, confirm(inbox), 'ILLEGAL_TRANSITION');
    refuses(requestedCommand(), confirm(inbox), 'ILLEGAL_TRANSITION');
  });

  it('of the requester is refused if the policy requires another principal, who can still confirm', () => {
    const command = waiting();
    const rules = { confirm_by: ['another_principal'], agent_confirm_by: ['person'], confirm_ttl_s: 300 } as const;
    refuses(command, confirm({ rules }), 'CONFIRMATION_FAILED');
    refuses(command, confirm({ rules, tokenHash: null }), 'CONFIRMATION_FAILED');
    command.send(confirm({ rules, by: other }));
    expect(command.context.fixed.confirmedBy).toEqual(other);
  });

  it('of a key is refused if the policy requires a person', () => {
    const rules = { confirm_by: ['person'], agent_confirm_by: ['person'], confirm_ttl_s: 300 } as const;
    refuses(waiting(), confirm({ rules, by: { ...other, key: 'abcdefgh' } }), 'CONFIRMATION_FAILED');
    expect(waiting().send(confirm({ rules, by: { ...other, person: true } })).same).toBe(false);
  });

  it.each([
    ['a revoked device', { device: { revoked: true } }, 'DEVICE_REVOKED'],
    ['disabled commands', { flags: { maintenance_mode: false, commands_disabled: true } }, 'COMMANDS_DISABLED'],
    ['a suspended tenant', { tenant: { suspended: true } }, 'TENANT_SUSPENDED'],
    ['a manifest that is gone', { manifest: null }, 'MANIFEST_NOT_FOUND'],
  ])('is refused by the gateway for %s, and the command keeps waiting', (_, changed, code) => {
    const command = waiting();
    const step = command.send(confirm({ facts: facts(changed) }));
    expect(step).toMatchObject({ same: true, outputs: [{ type: 'refused', refusal: { code } }] });
    expect(command.send(confirm()).same).toBe(false);
  });

  it('confirms the requested action, ignoring the action in the facts', () => {
    const command = waiting();
    command.send(confirm({ facts: facts({ action: 'fly', params: { to: 'the moon' }, confirmed: false }) }));
    expect(status(command)).toBe('dispatched');
    expect(command.context.fixed.action).toBe('unlock');
  });
});
