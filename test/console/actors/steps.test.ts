import { describe, expect, it } from 'vitest';
import { historyStateAfter, initialPaths, isEnabled, wasTaken } from '../../../console/src/actors/history-state.ts';
import { stepsOf } from '../../../console/src/actors/steps.ts';
import { statesOf, transitionsOf, typeOf } from '../../../src/machines/chart.ts';
import { commandMachine } from '../../../src/machines/command.ts';
import { deviceMachine } from '../../../src/machines/device.ts';

const entry = (version: number, from: string | null, to: string, event = 'patch') => ({
  ...{ version, at: `2026-03-01T12:00:0${version}.000Z`, by: 'somebody', event, from, to, data: null },
});
const now = (state: string) => ({ state, since: '2026-03-01T12:00:09.000Z' });

describe('the steps of an actor', () => {
  it('are those of its journal, oldest first', () => {
    const steps = stepsOf([entry(2, 'a', 'b'), entry(1, null, 'a', 'register')], [], now('b'));
    expect(steps.map(({ event, to }) => [event, to])).toEqual([
      ['register', 'a'],
      ['patch', 'b'],
    ]);
  });

  it('have placeholders where the journal has a gap, and at its end', () => {
    const steps = stepsOf([entry(3, 'b', 'c'), entry(1, null, 'a')], [], now('d'));
    expect(steps.map(({ event, from, to, at }) => [event, from, to, at?.slice(-5)])).toEqual([
      ['patch', null, 'a', '.000Z'],
      [null, 'a', 'b', undefined],
      ['patch', 'b', 'c', '.000Z'],
      [null, 'c', 'd', '.000Z'],
    ]);
  });

  it('include each live transition once', () => {
    const received = (to: string, second: number, event: string, from: string) => ({
      ...{ kind: 'device' as const, id: 'x', from, to, event, at: Date.parse(`2026-03-01T12:00:0${second}.000Z`) },
    });
    const notified = [received('b', 2, 'patch', 'a'), received('c', 3, 'presence.lost', 'b')];
    const steps = stepsOf([entry(2, 'a', 'b'), entry(1, null, 'a')], notified, now('c'));
    expect(steps.map(({ event }) => event)).toEqual(['patch', 'patch', 'presence.lost']);
  });

  it('are empty where the journal has been pruned', () => expect(stepsOf([], [], now('a'))).toEqual([]));
});

/** The description as in `GET /machines/{kind}`. */
const machineOf = (machine: typeof deviceMachine | typeof commandMachine) => ({
  ...{ kind: 'device' as const, version: 1, description: '', events: [], diagram: '', page: '' },
  type: typeOf(machine.root),
  states: statesOf(machine).map(({ path, ...rest }) => ({ state: path.join('.'), ...rest })),
  transitions: transitionsOf(machine).map(({ from, to, ...rest }) => ({
    ...{ from: from.join('.'), to: to?.join('.') ?? null },
    ...rest,
  })),
});

const arrow = (from: string, to: string, event: string) => ({
  ...{ id: `${from}→${to}`, from, to, points: [], label: null },
  transitions: [{ from, to, event, when: null, does: [] }],
});

describe('a state in the history of an actor', () => {
  const device = machineOf(deviceMachine);
  const online = 'administration.active.one_key,link.online';
  const offline = 'administration.active.one_key,link.offline';

  it('starts at the initial state of the machine', () => {
    expect(initialPaths(device)).toEqual(['administration.unregistered', 'link.offline']);
    expect(initialPaths(machineOf(commandMachine))).toContain('lifecycle.submitted');
  });

  it('shows the transition of the last step only', () => {
    const step = { event: 'presence.lost', from: online, to: offline, at: null, by: null, data: null };
    const historyState = historyStateAfter(device, step, ['hello.received', 'revoke']);
    expect(wasTaken(arrow('link.online', 'link.offline', 'presence.lost'), historyState)).toBe(true);
    expect(wasTaken(arrow('link.online', 'link.offline', 'revoke'), historyState)).toBe(false);
    expect(wasTaken(arrow('link.offline', 'link.online', 'hello.received'), historyState)).toBe(false);
  });

  it('shows the possible transitions from its state and its parent states, and none of the past', () => {
    const step = { event: 'presence.lost', from: online, to: offline, at: null, by: null, data: null };
    const historyState = historyStateAfter(device, step, ['hello.received', 'revoke']);
    expect(isEnabled(arrow('link.offline', 'link.online', 'hello.received'), historyState)).toBe(true);
    expect(isEnabled(arrow('administration.active', 'administration.revoked', 'revoke'), historyState)).toBe(true);
    expect(isEnabled(arrow('administration.revoked', 'administration.active', 'reinstate'), historyState)).toBe(false);
    expect(isEnabled(arrow('link.offline', 'link.online', 'hello.received'), historyStateAfter(device, step))).toBe(
      false,
    );
  });
});
