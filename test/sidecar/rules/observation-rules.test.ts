import { describe, expect, it } from 'vitest';
import { decide } from '../../../sidecar/rules/planner.ts';
import { memory, observed, shortForm } from '../world-fixtures.ts';

describe('observations', () => {
  it.each([
    [{ temperature: 12 }, ['Thermostat set_temperature 22 undone by set_temperature 20'], 'It is 12 °C, below 16 °C.'],
    [{ humidity: 80 }, ['Thermostat set_mode "dry" undone by set_mode "heat"'], 'The humidity is 80 %, above 70 %.'],
    [{ water_leak: true }, ['Main valve close_valve'], 'Water is leaking.'],
    [
      { smokeDetected: true },
      [
        'Reading lamp turn_on undone by turn_off',
        'Thermostat turn_off undone by turn_on',
        'Radiator turn_off undone by turn_on',
      ],
      'Smoke was detected.',
    ],
    [{ gas: 1 }, ['Main valve close_valve'], 'Gas was detected.'],
  ])('%o leads to a proposal with a reason', (data, steps, because) => {
    const decision = decide(observed(data, 'Ceiling light'));
    expect(shortForm(decision)).toEqual(steps);
    expect(decision).toMatchObject({ because });
  });

  it.each([
    [{ temperature: 21 }, 'done: No measurement requires an action.'],
    [
      { battery: 9 },
      'done: The battery is at 9 %. Replace it. No device can do anything about it, or it is already done.',
    ],
    [{}, 'done: No measurement requires an action.'],
  ])('%o leads to no proposal, with a reason', (data, sent) => {
    expect(shortForm(decide(observed(data, 'Bath sensor')))).toEqual([sent]);
  });

  it('with a rule in memory lead to its steps, for its device only', () => {
    const memories = [
      memory('routine', 'bathroom', 'When humidity is above 60 %, turn on the reading lamp and close the blinds'),
    ];
    const inTheBathroom = decide(observed({ humidity: 65 }, 'Bath sensor', { memories }));
    expect(shortForm(inTheBathroom)).toEqual([
      'Reading lamp turn_on undone by turn_off',
      'Living room blind close undone by open',
    ]);
    expect(inTheBathroom).toMatchObject({ because: 'humidity is 65, above 60 (condition of a routine).' });
    expect(shortForm(decide(observed({ humidity: 65 }, 'Bed light', { memories })))).toEqual([
      'done: No measurement requires an action.',
    ]);
  });

  it('can have a rule about text values and about booleans', () => {
    const memories = [
      memory('routine', '', 'if window is open: turn off the thermostat'),
      memory('routine', '', 'when motion is true: turn on the reading lamp'),
    ];
    expect(shortForm(decide(observed({ window: 'open', motion: true }, 'Bath sensor', { memories })))).toEqual([
      'Thermostat turn_off undone by turn_on',
      'Reading lamp turn_on undone by turn_off',
    ]);
    expect(shortForm(decide(observed({ window: 'shut', motion: false }, 'Bath sensor', { memories })))).toEqual([
      'done: No measurement requires an action.',
    ]);
  });
});
