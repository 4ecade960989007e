import { describe, expect, it } from 'vitest';
import { statusOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import type { Driven } from './drive.ts';
import {
  asked,
  asker,
  blankCommand,
  confirm,
  DEVICE,
  dimmer,
  facts,
  observed,
  ofType,
  other,
  PREVIEW,
  request,
  said,
  T0,
  typesOf,
  unlocker,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
const TIMER = 'xstate.after.confirmationOver.command.lifecycle.awaiting_confirmation';
const status = (command: Command) => statusOf(command.asSnapshot());

const waiting = (more: object = {}) => asked({ action: 'unlock', params: {}, ...more });
const dryRun = () => asked({ facts: { dryRun: true } });

/** Refuses with `code`, and the command waits as before. */
function refuses(command: Command, event: CommandEvent, code: string, detail?: string): void {
  const before = command.snapshot;
  const step = command.send(event);
  expect(step).toMatchObject({ same: true, timers: [] });
  expect(step.outputs).toEqual([{ type: 'refused', refusal: { code, detail: detail ?? expect.any(String) } }]);
  expect(command.snapshot).toBe(before);
}

describe('a command that needs confirmation', () => {
  it('waits for it until the token runs out', () => {
    const command = blankCommand();
    const step = command.send(request({ action: 'unlock', params: {}, session: 's1' }));
    expect(command.value).toEqual({ lifecycle: 'awaiting_confirmation', verification: 'unverifiable' });
    expect(typesOf(step.outputs)).toEqual(['command.changed']);
    expect(step.timers).toEqual([{ set: TIMER, event: TIMER, delay: 300_000 }]);
    expect(command.context).toMatchObject({
      safetyClass: 'CRITICAL',
      confirmation: {
        tokenHash: 'hash of the token',
        expiresAt: T0 + 300_000,
        reason: "'unlock' is critical and needs confirmation.",
        preview: PREVIEW,
        asked: false,
      },
      delivery: null,
    });
  });

  it('is also a dry run of any class', () => {
    const command = dryRun();
    expect(status(command)).toBe('awaiting_confirmation');
    expect(command.value).toEqual({ lifecycle: 'awaiting_confirmation', verification: 'idle' });
    expect(command.context.confirmation).toMatchObject({ asked: true, reason: 'A dry run was asked for.' });
    expect(command.context.verification).toMatchObject({ status: 'pending', expected: { brightness: 70 } });
  });

  it('expires with its token', () => {
    const command = waiting();
    const step = command.fire();
    expect(status(command)).toBe('expired');
    expect(ofType(step.outputs, 'command.changed')).toMatchObject([{ status: 'expired', at: T0 + 300_000 }]);
    expect(command.context.confirmation).toBeNull();
  });

  it('that expires, or is cancelled, can be verified no more', () => {
    const expired = dryRun();
    const step = expired.fire();
    expect(typesOf(step.outputs)).toEqual(['command.changed']);
    expect(ofType(step.outputs, 'command.changed')).toMatchObject([
      { status: 'expired', verification: 'unverifiable' },
    ]);
    expect(expired.context.verification).toMatchObject({ status: 'unverifiable', checkedAt: T0 + 300_000 });
  });

  it.each([
    { type: 'cancel', at: T0 + 5, by: other, reason: 'too dangerous' },
    { type: 'device.revoked', at: T0 + 5, deviceId: DEVICE },
  ] satisfies CommandEvent[])('is cancelled by $type', (event) => {
    const command = waiting();
    const step = command.send(event);
    expect(status(command)).toBe('cancelled');
    expect(step.timers).toEqual([{ clear: TIMER }]);
    expect(command.context.confirmation).toBeNull();
    refuses(command, confirm(), 'CONFIRMATION_FAILED', 'There is nothing to confirm.');
  });

  it('is moved by no word of its device and by no state', () => {
    const command = dryRun();
    command.send(said('succeeded', T0 + 1));
    expect(command.send(observed(true, T0 + 1)).same).toBe(true);
    expect(status(command)).toBe('awaiting_confirmation');
    expect(command.context.answer.strayWords).toBe(1);
  });
});

describe('a confirmation', () => {
  it('dispatches the command, whose ttl runs from then on', () => {
    const command = waiting({ ttlS: 300 });
    const step = command.send(confirm({ by: other, at: T0 + 10_000 }));
    expect(command.value).toEqual({ lifecycle: { written: 'dispatched' }, verification: 'unverifiable' });
    expect(command.context).toMatchObject({
      confirmedBy: other,
      confirmation: null,
      delivery: { dispatchedAt: T0 + 10_000, expiresAt: T0 + 310_000, firstWrittenAt: T0 + 10_000, sessionId: 's1' },
    });
    expect(step.outputs).toMatchObject([
      { type: 'command.write', critical: true, message: { issuedAt: T0 + 10_000, expiresAt: T0 + 310_000 } },
      { type: 'command.changed', status: 'dispatched' },
    ]);
    expect(step.timers[0]).toEqual({ clear: TIMER });
  });

  it('queues it where no session stands, and watches what a dry run expects', () => {
    const command = dryRun();
    const step = command.send(confirm({ session: null }));
    expect(command.value).toEqual({ lifecycle: 'queued', verification: { watching: 'open' } });
    expect(typesOf(step.outputs)).toEqual(['command.changed', 'verification.watch']);
    expect(command.context.confirmedBy).toEqual(asker);
  });

  it('works once', () => {
    const command = waiting();
    command.send(confirm());
    refuses(command, confirm({ at: T0 + 10_001 }), 'CONFIRMATION_FAILED');
  });

  it('without the token, or with another, is refused and uses nothing up', () => {
    const command = waiting();
    refuses(command, confirm({ tokenHash: 'another' }), 'CONFIRMATION_FAILED');
    expect(command.send(confirm()).same).toBe(false);
  });

  it('comes too late at the very end of the token', () => {
    refuses(waiting(), confirm({ at: T0 + 300_000 }), 'CONFIRMATION_FAILED', 'The confirmation came too late.');
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

  it('of the asker is refused where the policy wants another principal, who may still give it', () => {
    const command = waiting();
    const policy = { confirm_by: 'another_principal', confirm_ttl_s: 300 } as const;
    refuses(command, confirm({ policy }), 'CONFIRMATION_FAILED');
    refuses(command, confirm({ policy, tokenHash: null }), 'CONFIRMATION_FAILED');
    command.send(confirm({ policy, by: other }));
    expect(command.context.confirmedBy).toEqual(other);
  });

  it('of a key is refused where the policy wants a person', () => {
    const policy = { confirm_by: 'person', confirm_ttl_s: 300 } as const;
    refuses(waiting(), confirm({ policy, by: { ...other, key: 'abcdefgh' } }), 'CONFIRMATION_FAILED');
    expect(waiting().send(confirm({ policy, by: { ...other, person: true } })).same).toBe(false);
  });

  it.each([
    ['a revoked device', { device: { revoked: true } }, 'DEVICE_REVOKED'],
    ['disabled commands', { flags: { maintenance_mode: false, commands_disabled: true } }, 'COMMANDS_DISABLED'],
    ['a suspended tenant', { tenant: { suspended: true } }, 'TENANT_SUSPENDED'],
    ['a manifest that is gone', { manifest: null }, 'MANIFEST_NOT_FOUND'],
  ])('is refused by the gateway for %s, and the command goes on waiting', (_, changed, code) => {
    const command = waiting();
    const step = command.send(confirm({ facts: facts(changed) }));
    expect(step).toMatchObject({ same: true, outputs: [{ type: 'refused', refusal: { code } }] });
    expect(command.send(confirm()).same).toBe(false);
  });

  it('confirms what was asked, whatever action the facts name', () => {
    const command = waiting();
    command.send(confirm({ facts: facts({ action: 'fly', params: { to: 'the moon' }, confirmed: false }) }));
    expect(status(command)).toBe('dispatched');
    expect(command.context.action).toBe('unlock');
  });
});
