import { expect, it } from 'vitest';
import { actionsByCategory } from '../../src/domain/capability-actions.ts';
import { steppedProperties } from '../../src/domain/stepped-properties.ts';

it('a number lasts until the next sample if an action sets it, or if the history keeps its changes', () => {
  const actions = [{ expectedState: { on: true, color: { hue: { $param: 'hue' } } } }, {}];
  const properties = {
    ...{ 'a\\.b': { history: 'change' as const }, measured: { history: 'every' as const }, plain: {} },
    $telemetry: { history: 'off' as const },
  };
  expect([...steppedProperties(actions, properties)]).toEqual(['on', 'color.hue', 'a.b']);
  expect([...steppedProperties(actionsByCategory.climate)]).toContain('target_celsius');
  expect([...steppedProperties(actionsByCategory.climate)]).not.toContain('temperature');
});

it('none lasts below a property whose history is off', () => {
  const actions = [{ expectedState: { color: { hue: 1 }, colors: 1, level: 2 } }];
  expect([...steppedProperties(actions, { color: { history: 'off' }, level: { history: 'off' } })]).toEqual(['colors']);
});
