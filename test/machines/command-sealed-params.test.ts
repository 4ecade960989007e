import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import { commandDefinition } from '../../src/machines/command-record.ts';
import type { CommandEvent } from '../../src/machines/command-types.ts';
import { cancel, revoked, status, undone } from './command-fixtures.ts';
import { ackReceived, blankCommand, confirm, facts, ofType, ready, request, T0 } from './samples.ts';

type Request = Extract<CommandEvent, { type: 'request' }>;

const MASKED = { level: { write_only: true } };
const SEALED = 's2.key.blob';

/** A request whose parameters are sealed; the facts have the values. */
const sealedRequest = (given: JsonObject, options: Parameters<typeof request>[0] = {}): Request => {
  const event = request({ ...options, params: MASKED });
  const { params: _, ...others } = event.facts;
  return {
    ...event,
    command: { ...event.command, sealedParams: SEALED },
    facts: { ...others, params: given },
  };
};
const requested = (options: Parameters<typeof request>[0] = {}, given: JsonObject = { level: 70 }) => {
  const command = blankCommand();
  const step = command.send(sealedRequest(given, options));
  return { command, step };
};
const sealedOf = ({ command }: ReturnType<typeof requested>) => command.context.live.sealedParams;

describe('sealed parameters of a command', () => {
  it('are judged by their values, and stored without them', () => {
    const accepted = requested();
    expect(status(accepted.command)).toBe('dispatched');
    expect(accepted.command.context.fixed.params).toEqual(MASKED);
    const refused = requested({}, { level: 'bright' });
    expect(status(refused.command)).toBe('rejected');
    expect(refused.command.context.fixed.refusal?.code).toBe('PARAMS_INVALID');
    expect(sealedOf(refused)).toBeNull();
  });

  it('are sent with each write until the first ack, and dropped by it', () => {
    const waiting = requested();
    const writes = () => ofType(waiting.command.send(ready('s1', T0 + 1)).outputs, 'command.write');
    expect(writes().map(({ message }) => message.sealedParams)).toEqual([SEALED]);
    waiting.command.send(undone('s1', T0 + 2));
    expect(sealedOf(waiting)).toBe(SEALED);
    waiting.command.send(ready('s2', T0 + 3));
    expect(ofType(waiting.command.send(ready('s3', T0 + 4)).outputs, 'command.write')).toHaveLength(1);
    waiting.command.send(ackReceived('accepted', T0 + 5));
    expect(sealedOf(waiting)).toBeNull();
    // The device has the command: it is not sent without the values.
    expect(waiting.command.send(ready('s4', T0 + 6)).outputs).toEqual([]);
  });

  it.each(['accepted', 'in_progress', 'succeeded', 'failed'] as const)('are dropped by the ack "%s"', (word) => {
    const written = requested({ session: 's1' });
    written.command.send(ackReceived(word, T0 + 1));
    expect(sealedOf(written)).toBeNull();
  });

  it('are dropped when the command is cancelled, expires, times out or loses its device', () => {
    const ends = [
      [{}, (one: ReturnType<typeof requested>) => one.command.send(cancel(T0 + 1))],
      [{}, (one: ReturnType<typeof requested>) => one.command.fire()],
      [{}, (one: ReturnType<typeof requested>) => one.command.send(revoked(T0 + 1))],
      [{ session: 's1' }, (one: ReturnType<typeof requested>) => one.command.fire()],
    ] as const;
    for (const [options, end] of ends) {
      const one = requested(options);
      expect(sealedOf(one)).toBe(SEALED);
      end(one);
      expect(sealedOf(one)).toBeNull();
    }
  });

  it('wait with the confirmation, and are judged again by their values', () => {
    const dryRun = requested({ facts: { dryRun: true } });
    expect(status(dryRun.command)).toBe('awaiting_confirmation');
    expect(sealedOf(dryRun)).toBe(SEALED);
    const wrong = dryRun.command.send(confirm({ facts: facts({ params: { level: 'bright' }, confirmed: true }) }));
    expect(ofType(wrong.outputs, 'refused').map(({ refusal }) => refusal.code)).toEqual(['PARAMS_INVALID']);
    const right = dryRun.command.send(confirm({ facts: facts({ params: { level: 70 }, confirmed: true }) }));
    expect(ofType(right.outputs, 'command.write').map(({ message }) => message.sealedParams)).toEqual([SEALED]);
    const expired = requested({ facts: { dryRun: true } });
    expired.command.fire();
    expect([status(expired.command), sealedOf(expired)]).toEqual(['expired', null]);
  });

  it('are not in the view for administrators, which shows whether they are held', () => {
    const one = requested();
    const view = commandDefinition.toAdminView(one.command.context);
    expect(view).toMatchObject({ params: MASKED, params_sealed: true });
    expect(JSON.stringify(view)).not.toContain(SEALED);
  });
});
