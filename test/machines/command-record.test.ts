import { describe, expect, it } from 'vitest';
import type { CommandColumns } from '../../src/machines/actor-columns.ts';
import { commandDefinition, commandStatusOf, verificationOf } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import { flatContext } from '../support/stored-context.ts';
import type { Driven } from './machine-driver.ts';
import {
  ackReceived,
  confirm,
  DEVICE,
  observed,
  other,
  ready,
  request,
  requestedCommand,
  requester,
  T0,
  TENANT,
} from './samples.ts';

type Command = Driven<CommandContext, CommandEvent>;
const { journal, columns, toStored, fromStored, canPassivate } = commandDefinition;

/** The journal entry of `event`. */
const noteOf = (command: Command, event: CommandEvent) => {
  const before = command.asSnapshot();
  command.send(event);
  return journal(event, before, command.asSnapshot());
};
/** The journal entry of the next timer. */
const noteOfTimer = (command: Command) => {
  const before = command.asSnapshot();
  const [timer] = [...command.running.values()];
  command.fire();
  return journal({ type: (timer as { event: string }).event, at: T0 }, before, command.asSnapshot());
};
const written = () => requestedCommand({ session: 's1' });
const waiting = () => requestedCommand({ action: 'unlock', params: {} });

describe('the status of a stored value', () => {
  it.each([
    ['submitted', 'submitted'],
    ['awaiting_confirmation', 'awaiting_confirmation'],
    ['queued', 'dispatched'],
    [{ written: 'dispatched' }, 'dispatched'],
    [{ written: 'acknowledged' }, 'acknowledged'],
    [{ written: 'in_progress' }, 'in_progress'],
    ['timed_out', 'timed_out'],
    ['closed', 'timed_out'],
    ['succeeded', 'succeeded'],
  ])('%j is %s', (lifecycle, status) => {
    expect(commandStatusOf({ value: { lifecycle, verification: 'idle' } })).toBe(status);
  });

  it.each([
    ['idle', 'pending'],
    [{ watching: 'open' }, 'pending'],
    [{ watching: 'closing' }, 'pending'],
    ['verified', 'verified'],
    ['timed_out', 'timed_out'],
    ['unverifiable', 'unverifiable'],
  ])('%j is %s', (verification, word) => {
    expect(verificationOf({ value: { lifecycle: 'queued', verification } })).toBe(word);
  });
});

describe('the record of a command', () => {
  it('has the columns that queries need', () => {
    const expected: CommandColumns = {
      device_id: DEVICE,
      action: 'set_brightness',
      status: 'dispatched',
      verification: 'pending',
      critical: false,
      written: false,
      token_hash: null,
      created_at: T0,
    };
    const command = requestedCommand();
    expect(columns(command.asSnapshot())).toEqual(expected);
    command.send(ready('s1', T0 + 1));
    expect(columns(command.asSnapshot())).toEqual({ ...expected, written: true });
    command.send({ type: 'write.undone', at: T0 + 2, sessionId: 's1' });
    expect(columns(command.asSnapshot())).toEqual(expected);
    command.send(ready('s1', T0 + 3));
    command.send(observed(true, T0 + 4));
    expect(columns(command.asSnapshot())).toEqual({ ...expected, written: true, verification: 'verified' });
  });

  it('can be found by its token while it can be confirmed, and is not compared with states before it is dispatched', () => {
    const critical = waiting();
    expect(columns(critical.asSnapshot())).toMatchObject({
      critical: true,
      written: false,
      token_hash: 'hash of the token',
      verification: 'unverifiable',
    });
    critical.send(confirm());
    expect(columns(critical.asSnapshot())).toMatchObject({ critical: true, written: true, token_hash: null });
    expect(columns(requestedCommand({ facts: { dryRun: true } }).asSnapshot())).toMatchObject({
      status: 'awaiting_confirmation',
      verification: 'idle',
    });
  });

  it('can be passivated while it waits for its device to connect', () => {
    const command = requestedCommand({ session: null });
    expect(canPassivate(command.asSnapshot())).toBe(true);
    command.send(ready('s1', T0 + 1));
    expect(canPassivate(command.asSnapshot())).toBe(false);
  });

  it('can be passivated when it has ended and nothing is pending', () => {
    const command = written();
    expect(canPassivate(command.asSnapshot())).toBe(false);
    command.send(ackReceived('succeeded', T0 + 1));
    expect(canPassivate(command.asSnapshot())).toBe(false);
    command.send(observed(true, T0 + 2));
    expect(canPassivate(command.asSnapshot())).toBe(true);
    expect(canPassivate(requestedCommand({ action: 'fly' }).asSnapshot())).toBe(true);
    for (const event of [
      ackReceived('failed', T0 + 1),
      ackReceived('accepted', T0 + 1),
      ackReceived('in_progress', T0 + 1),
    ]) {
      const blinking = requestedCommand({ action: 'blink', params: {}, session: 's1' });
      blinking.send(event);
      expect(canPassivate(blinking.asSnapshot()), event.ack.status).toBe(event.ack.status === 'failed');
    }
    for (const [before, command] of [
      [true, requestedCommand({ action: 'blink', params: {} })],
      [false, requestedCommand({ action: 'blink', params: {}, session: 's1' })],
    ] as const) {
      expect(canPassivate(command.asSnapshot())).toBe(before);
      command.fire();
      expect(canPassivate(command.asSnapshot())).toBe(true);
    }
    const cancelled = requestedCommand();
    cancelled.send({ type: 'cancel', at: T0 + 1, by: other });
    expect(canPassivate(cancelled.asSnapshot())).toBe(true);
    expect(canPassivate(waiting().asSnapshot())).toBe(false);
  });

  it('is never transient', () => {
    expect(commandDefinition.isTransient(ackReceived('accepted', T0))).toBe(false);
  });

  it('belongs to its tenant', () => {
    expect(commandDefinition.tenantOf(requestedCommand().context)).toBe(TENANT);
  });

  it("shows an administrator neither the token's hash nor the session", () => {
    const shown = commandDefinition.toAdminView(waiting().context);
    expect(shown).toMatchObject({
      action: 'unlock',
      confirmation: { expires_at: new Date(T0 + 300_000).toISOString(), asked: false },
    });
    expect(JSON.stringify(shown)).not.toContain('hash of the token');
    expect(commandDefinition.toAdminView(requestedCommand().context)).toMatchObject({ confirmation: null });
  });

  it('refuses a stored context that does not fit', () => {
    const stored = flatContext(toStored(waiting().context));
    expect(fromStored(stored)).toEqual(waiting().context);
    expect(() => fromStored(flatContext(toStored(requestedCommand({ action: 'fly' }).context)))).not.toThrow();
    for (const wrong of [
      { status: 'lost' },
      { params: [] },
      { safetyClass: 'HIGH' },
      { refusal: { code: 'NO_SUCH_CODE', detail: '' } },
      { refusal: { code: 7, detail: '' } },
      { refusal: { code: 'toString', detail: '' } },
      { confirmation: {} },
      { delivery: {} },
      { answer: {} },
      { verification: {} },
      { limits: {} },
      { requestedBy: { kind: 'robot', id: 'x' } },
      { more: 1 },
    ]) {
      expect(() => fromStored({ ...stored, ...wrong } as never), JSON.stringify(wrong)).toThrow();
    }
  });

  it('keeps all fields of a principal', () => {
    const by = { ...other, key: 'abcdefgh', via: 'rest', person: true };
    const command = waiting();
    command.send(confirm({ by }));
    command.reload();
    expect(command.context.fixed.confirmedBy).toEqual(by);
    expect(command.context.fixed.requestedBy).toEqual(requester);
  });
});

describe('the journal of a command', () => {
  it('begins with the request, or its refusal', () => {
    const of = (command: Command, event: CommandEvent) => journal(event, null, command.asSnapshot());
    expect(of(requestedCommand(), request())).toEqual({ data: { action: 'set_brightness', safety_class: 'NORMAL' } });
    expect(of(requestedCommand({ action: 'fly' }), request())).toEqual({
      data: {
        action: 'fly',
        safety_class: null,
        code: 'ACTION_NOT_IN_MANIFEST',
        reason: "The device does not offer 'fly'.",
      },
    });
  });

  it('contains how it was confirmed, but not the token', () => {
    expect(noteOf(waiting(), confirm())).toEqual({ data: { inbox: false } });
    expect(noteOf(waiting(), confirm({ tokenHash: null }))).toEqual({ data: { inbox: true } });
    expect(noteOf(waiting(), confirm({ tokenHash: 'wrong' }))).toBeNull();
  });

  it('contains why it was cancelled', () => {
    expect(noteOf(requestedCommand(), { type: 'cancel', at: T0, by: other, reason: 'a mistake' })).toEqual({
      data: { reason: 'a mistake' },
    });
    expect(noteOf(requestedCommand(), { type: 'cancel', at: T0, by: other })).toStrictEqual({ data: {} });
    expect(noteOf(requestedCommand(), { type: 'device.revoked', at: T0, deviceId: DEVICE })).toEqual({
      data: { reason: 'the device was revoked' },
    });
  });

  it('counts the writes', () => {
    const command = requestedCommand();
    expect(noteOf(command, ready('s1', T0 + 1))).toEqual({ data: { writes: 1 } });
    expect(noteOf(command, { type: 'write.undone', at: T0 + 2, sessionId: 's1' })).toEqual({ data: { writes: 0 } });
  });

  it('contains acknowledgements of the device, including those without effect, but not progress', () => {
    const command = written();
    expect(noteOf(written(), ackReceived('in_progress', T0 + 1))).toEqual({
      data: { word: 'in_progress', late: false, stray_words: 0 },
    });
    const word = (status: string, late = false, stray_words = 0) => ({ data: { word: status, late, stray_words } });
    expect(noteOf(command, ackReceived('accepted', T0 + 1))).toEqual(word('accepted'));
    expect(noteOf(command, ackReceived('in_progress', T0 + 2))).toEqual(word('in_progress'));
    expect(noteOf(command, ackReceived('in_progress', T0 + 3, { progress: 50 }))).toBeNull();
    expect(noteOf(command, ackReceived('succeeded', T0 + 4))).toEqual(word('succeeded'));
    expect(noteOf(command, ackReceived('in_progress', T0 + 5))).toEqual(word('in_progress', false, 1));
    const late = written();
    late.fire();
    expect(noteOf(late, ackReceived('failed', T0 + 99_000))).toEqual(word('failed', true));
  });

  it('contains the observed state', () => {
    expect(noteOf(written(), observed(true, T0 + 1))).toEqual({ data: { matches: true } });
    expect(noteOf(written(), observed(false, T0 + 1))).toEqual({ data: { matches: false } });
  });

  it('contains the sequence number of the report', () => {
    const report = { sequence: 7 };
    expect(noteOf(written(), { ...observed(true, T0 + 1), ...report })).toEqual({
      data: { matches: true, sequence_number: 7 },
    });
    expect(noteOf(written(), { ...ackReceived('succeeded', T0 + 1), ...report })).toMatchObject({
      data: { word: 'succeeded', sequence_number: 7 },
    });
  });

  it('contains which wait each timer ended', () => {
    expect(noteOfTimer(waiting())).toEqual({ data: { reason: 'not confirmed in time' } });
    expect(noteOfTimer(requestedCommand())).toEqual({ data: { reason: 'not written within ttl_s' } });
    const command = written();
    expect(noteOfTimer(command)).toEqual({ data: { reason: 'no final ack within timeout_s' } });
    expect(noteOfTimer(command)).toEqual({ data: { reason: 'no late ack within 24 h' } });
    const done = written();
    done.send(ackReceived('succeeded', T0 + 1));
    expect(noteOfTimer(done)).toEqual({ data: { reason: 'not verified within verify_within_s' } });
  });
});
