import { describe, expect, it } from 'vitest';
import { kinds } from '../../../console/src/actors/actor-display.ts';
import {
  explainedLabelOf,
  labelOf,
  pathTitle,
  wordsOfEvent,
  wordsOfGuard,
} from '../../../console/src/actors/machine-words.ts';
import { transitionsOf } from '../../../src/machines/chart.ts';
import { currentDefinition } from '../../../src/machines/versions.ts';

describe('the names of events, guards and states', () => {
  it.each(kinds)('cover every event and guard of a %s', (kind) => {
    const transitions = transitionsOf(currentDefinition(kind).machine);
    expect(transitions.map(({ event }) => event).filter((event) => wordsOfEvent(kind, event) === null)).toEqual([]);
    const guards = transitions.flatMap(({ when }) => (when === null ? [] : [when]));
    expect(guards.filter((guard) => wordsOfGuard(guard) === null)).toEqual([]);
  });

  it('show an unknown event by its own name', () => {
    expect(labelOf('device', { event: 'clock.set', when: 'is very_new' })).toBe('clock.set [is very new]');
  });

  it.each([
    ['mind.none', 'planner › no planner'],
    ['clock.still', 'retries › no retry'],
    ['administration.active.one_key', 'administration › active › one key'],
  ])('describe the state %s as %s', (path, title) => {
    expect(pathTitle(path)).toBe(title);
  });

  it('have the identifiers as a detail', () => {
    const answered = { event: 'ack.received', when: 'has ack status in_progress' };
    expect(labelOf('command', answered)).toBe('Answer of the device [the device reports in progress]');
    expect(explainedLabelOf('command', answered)).toBe(
      'Answer of the device [the device reports in progress] (ack.received: has ack status in_progress)',
    );
    expect(labelOf('command', { event: 'self.judged', when: 'is refused' })).toBe('[not allowed]');
  });
});
