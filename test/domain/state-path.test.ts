import { describe, expect, it } from 'vitest';
import { eventText, pathsOf, stateText } from '../../src/domain/state-path.ts';

describe('a state', () => {
  it.each([
    ['active', 'active'],
    [{ lifecycle: { written: 'dispatched' }, verification: 'idle' }, 'lifecycle.written.dispatched,verification.idle'],
    [{ link: 'online', administration: { active: 'one_key' } }, 'administration.active.one_key,link.online'],
    [null, ''],
  ])('%j is shown as %s', (value, text) => expect(stateText(value)).toBe(text));

  it('is shown the same for any stored order of its regions', () => {
    expect(pathsOf({ b: 'x', a: 'y' })).toEqual(pathsOf({ a: 'y', b: 'x' }));
  });
});

describe('an event', () => {
  it('is shown by its name, a timer by the delay that elapsed', () => {
    expect(eventText('ack.received')).toBe('ack.received');
    expect(eventText('xstate.after.graceOver.device.administration.active.two_keys')).toBe('after grace over');
  });
});
