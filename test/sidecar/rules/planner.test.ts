import { describe, expect, it } from 'vitest';
import { decide } from '../../../sidecar/rules/planner.ts';
import { relativeCost } from '../../support/cpu-time.ts';
import { fc } from '../../support/properties.ts';
import { context, device, flat, goal, memory, nodesOf, shortForm, toolsOf, view } from '../world-fixtures.ts';

const plan = (text: string, more: Parameters<typeof goal>[1] = {}) => shortForm(decide(goal(text, more)));

describe('goals planned by rules', () => {
  it.each([
    ['Turn off the lights', ['Ceiling light turn_off undone by turn_on', 'Bed light turn_off undone by turn_on']],
    ['please switch on the reading lamp!', ['Reading lamp turn_on undone by turn_off']],
    ['Reading lamp on', ['Reading lamp turn_on undone by turn_off']],
    ['Could you turn the ceiling light off, please?', ['Ceiling light turn_off undone by turn_on']],
    [
      'turn off everything in the living room',
      ['Ceiling light turn_off undone by turn_on', 'Thermostat turn_off undone by turn_on'],
    ],
    ['turn off the lights in the bedroom', ['Bed light turn_off undone by turn_on']],
    ['Turn off the living room lights', ['Ceiling light turn_off undone by turn_on']],
    ['turn off all the lights except the bed light', ['Ceiling light turn_off undone by turn_on']],
    ['Lock the doors', ['Front door lock']],
    ['unlock the front door', ['done: Nothing to do: the goal is already reached.']],
    ['close the blinds', ['Living room blind close undone by open']],
    ['set the blinds to 30 %', ['Living room blind set_position 30 undone by open']],
    ['Make the living room warm', ['Thermostat set_temperature 22 undone by set_temperature 20']],
    ['make it warmer in the bedroom', ['Radiator set_temperature 20 undone by set_temperature 19']],
    ["It's too cold in the living room", ['Thermostat set_temperature 21 undone by set_temperature 20']],
    ['Set the thermostat to 21,5 °C', ['Thermostat set_temperature 21.5 undone by set_temperature 20']],
    ['set the thermostat to 70 degrees fahrenheit', ['Thermostat set_temperature 21 undone by set_temperature 20']],
    ['23° in the bedroom', ['Radiator set_temperature 23 undone by set_temperature 19']],
    ['dim the ceiling light to 40 %', ['Ceiling light set_brightness 40 undone by set_brightness 80']],
    ['dim the reading lamp to 40', ['Reading lamp set_brightness 40 undone by turn_off']],
    [
      'set the ceiling light to 2700 K',
      ['Ceiling light set_color_temperature 2700 undone by set_color_temperature 4000'],
    ],
    ['close the water valve', ['Main valve close_valve']],
    [
      'make the living room bright',
      [
        'Ceiling light set_brightness 100 undone by set_brightness 80',
        'Reading lamp set_brightness 100 undone by turn_off',
      ],
    ],
    ['set the thermostat to dry', ['Thermostat set_mode "dry" undone by set_mode "heat"']],
    [
      'turn off everything except the fridge plug, the bed light and the heating',
      ['Ceiling light turn_off undone by turn_on'],
    ],
    [
      'Turn off the lights, except for the bed light, and lock the door',
      ['Ceiling light turn_off undone by turn_on', 'Front door lock'],
    ],
    [
      'turn off the lights in the living room and the bedroom',
      ['Ceiling light turn_off undone by turn_on', 'Bed light turn_off undone by turn_on'],
    ],
    [
      'turn off the bedroom and the living room lights',
      ['Bed light turn_off undone by turn_on', 'Ceiling light turn_off undone by turn_on'],
    ],
    ['cool the living room to 18', ['Thermostat set_temperature 18 undone by set_temperature 20']],
    ['set the living room to 21', ['Thermostat set_temperature 21 undone by set_temperature 20']],
    ['set the bedroom to 40 %', ['Bed light set_brightness 40 undone by set_brightness 30']],
  ])('%s', (text, steps) => {
    expect(plan(text)).toEqual(steps);
  });

  it('puts a thermostat into a suitable mode, and then sets it', () => {
    expect(plan('set the thermostat to cool')).toEqual([
      'Thermostat set_mode "cool" undone by set_mode "heat"',
      'Thermostat set_temperature 19 after thermostat-set-mode undone by set_temperature 20',
    ]);
    const off = device('climate', 'Heater', { state: { on: false, mode: 'cool', target_celsius: 18 } });
    expect(plan('make it warm', { devices: [off] })).toEqual([
      'Heater turn_on undone by turn_off',
      'Heater set_mode "heat" after heater-turn-on undone by set_mode "cool"',
      'Heater set_temperature 22 after heater-set-mode undone by set_temperature 18',
    ]);
    const state = { on: true, mode: 'heat', target_celsius: 18 };
    const outdated = device('climate', 'Heater', { state, stateOutdated: true });
    expect(plan('make it warm', { devices: [outdated] })).toEqual([
      'Heater turn_on',
      'Heater set_mode "heat" after heater-turn-on',
      'Heater set_temperature 22 after heater-set-mode',
    ]);
    expect(plan('set the heater to 21 °C', { devices: [outdated] })).toEqual([
      'Heater turn_on',
      'Heater set_temperature 21 after heater-turn-on',
    ]);
  });

  it('runs independent steps in parallel, and later steps after all of them', () => {
    expect(plan('turn off the lights, close the blinds, then lock the door')).toEqual([
      'Ceiling light turn_off undone by turn_on',
      'Bed light turn_off undone by turn_on',
      'Living room blind close undone by open',
      'Front door lock after ceiling-light-turn-off bed-light-turn-off living-room-blind-close',
    ]);
  });

  it('applies one verb to a list of things', () => {
    expect(plan('turn off the ceiling light and the bed light and lock the front door')).toEqual([
      'Ceiling light turn_off undone by turn_on',
      'Bed light turn_off undone by turn_on',
      'Front door lock',
    ]);
  });

  it('orders two steps on one device, even if the second already holds', () => {
    expect(plan('turn off the ceiling light; turn on the ceiling light')).toEqual([
      'Ceiling light turn_off undone by turn_on',
      'Ceiling light turn_on after ceiling-light-turn-off undone by turn_on',
    ]);
  });

  it('plans changes and reversals when requested, and continues in the middle', () => {
    expect(plan('dim the bed light to 10; then dim the bed light to 50; dim the bed light to 50')).toEqual([
      'Bed light set_brightness 10 undone by set_brightness 30',
      'Bed light set_brightness 50 after bed-light-set-brightness undone by set_brightness 30',
    ]);
    expect(plan('reading lamp on; reading lamp off; reading lamp on')).toEqual([
      'Reading lamp turn_on undone by turn_off',
      'Reading lamp turn_off after reading-lamp-turn-on undone by turn_off',
      'Reading lamp turn_on after reading-lamp-turn-off undone by turn_off',
    ]);
    const two = goal('dim the bed light to 10; then dim the bed light to 50');
    const nodes = nodesOf(decide(two), 'succeeded');
    const cut = { ...two, context: { ...two.context, nodes: nodes.slice(0, 1) } };
    expect(shortForm(decide(cut))).toEqual([
      'Bed light set_brightness 50 after bed-light-set-brightness undone by set_brightness 30',
    ]);
    expect(decide({ ...two, context: { ...two.context, nodes } })).toHaveProperty('done');
  });

  it('has a step for what held before a command that the device has not reported since', () => {
    const door = device('lock', 'Front door', { state: { locked: true } });
    expect(plan('lock the front door', { devices: [door] })).toEqual([
      'done: Nothing to do: the goal is already reached.',
    ]);
    const outdated = { ...door, stateOutdated: true };
    expect(plan('lock the front door', { devices: [outdated] })).toEqual(['Front door lock']);
    const lamp = device('light', 'Lamp', { state: { on: true }, stateOutdated: true });
    expect(plan('turn off the lamp', { devices: [lamp] })).toEqual(['Lamp turn_off']);
    expect(plan('turn on the lamp, then lock the front door', { devices: [lamp, outdated] })).toEqual([
      'Lamp turn_on',
      'Front door lock after lamp-turn-on',
    ]);
  });

  it('is done when only its own steps may have changed the reported state', () => {
    const lamp = device('light', 'Bed light', { state: { on: true, brightness: 80 } });
    const tools = new Map([...toolsOf('lock'), ...toolsOf('cover')]);
    const gate = device('lock', 'Gate', { state: { locked: false, position: 0 }, tools });
    for (const text of ['turn on the bed light, then dim it', 'close the gate, then lock the gate']) {
      const before = goal(text, { devices: [lamp, gate] });
      const proposed = decide(before);
      const nodes = nodesOf(proposed, 'succeeded');
      expect(nodes.map(({ action }) => action)).toEqual([text.includes('gate') ? 'lock' : 'set_brightness']);
      const devices = before.devices.map((one) => ({ ...one, stateOutdated: true }));
      expect(decide({ ...before, devices, context: { ...before.context, nodes } })).toHaveProperty('done');
    }
    const heater = device('climate', 'Heater', { state: { on: true, mode: 'auto', target_celsius: 18 } });
    const warm = goal('make it warm', { devices: [heater] });
    const nodes = nodesOf(decide(warm), 'succeeded');
    expect(nodes.map(({ action }) => action)).toEqual(['set_temperature']);
    const devices = [{ ...heater, stateOutdated: true }];
    expect(decide({ ...warm, devices, context: { ...warm.context, nodes } })).toHaveProperty('done');
  });

  it('locks the doors whose sensor has the name', () => {
    const devices = [...flat(), device('sensor', 'Door'), device('light', 'Doors', { state: { on: true } })];
    expect(plan('lock the doors', { devices })).toEqual(['Front door lock']);
    expect(plan('good night', { devices })[0]).toBe('Front door lock');
    expect(plan('turn off the doors', { devices })).toEqual(['Doors turn_off undone by turn_on']);
    const open = [device('sensor', 'Door')];
    expect(plan('lock the door', { devices: open })).toEqual(['NOT_POSSIBLE: No device named "door" can be locked.']);
  });

  it('checks that a door can be locked before a good night begins', () => {
    expect(plan('Good night!')).toEqual([
      'Front door lock',
      'Ceiling light turn_off after front-door-lock undone by turn_on',
      'Bed light turn_off after front-door-lock undone by turn_on',
      'Living room blind close after front-door-lock undone by open',
      'Thermostat set_temperature 18 after front-door-lock undone by set_temperature 20',
      'Radiator set_temperature 18 after front-door-lock undone by set_temperature 19',
    ]);
  });

  it('has no step for what already holds, and none for missing devices', () => {
    const lamp = device('light', 'Lamp', { state: { on: false } });
    expect(plan('good night', { devices: [lamp] })).toEqual(['done: Nothing to do: the goal is already reached.']);
    expect(plan('turn off the lights', { devices: [lamp] })).toEqual([
      'done: Nothing to do: the goal is already reached.',
    ]);
  });

  it('omits disconnected devices, and reports it; tries if none is connected', () => {
    const near = device('light', 'Near', { state: { on: true } });
    const far = device('light', 'Far', { state: { on: true }, online: false });
    const decision = decide(goal('lights off', { devices: [near, far] }));
    expect(shortForm(decision)).toEqual(['Near turn_off undone by turn_on']);
    expect(decision).toMatchObject({ because: 'Skipped, because offline: Far.' });
    expect(plan('lights off', { devices: [far] })).toEqual(['Far turn_off undone by turn_on']);
  });

  it('never compensates with a critical action', () => {
    const open = device('lock', 'Door', { state: { locked: false } });
    expect(plan('lock the door', { devices: [open] })).toEqual(['Door lock']);
  });

  it('understands “open everything” as the blinds, not doors or water', () => {
    const devices = [
      device('cover', 'Blind', { state: { position: 0 } }),
      device('valve', 'Valve', { state: { open: false } }),
      device('lock', 'Door', { state: { locked: true } }),
    ];
    expect(plan('open everything', { devices })).toEqual(['Blind open undone by close']);
    expect(plan('open the door', { devices })).toEqual(['Door unlock undone by lock']);
  });

  it('uses the actions of a manifest of the tenant', () => {
    const tools = new Map([
      [
        'set_brightness',
        {
          action: 'set_brightness',
          critical: false,
          functionName: 'set_brightness',
          description: '',
          params: { type: 'object', properties: { value: { type: 'number', maximum: 50 } }, required: ['value'] },
          expectedState: null,
        },
      ],
    ]);
    const devices = [device('light', 'Odd lamp', { category: null, tools })];
    expect(plan('make the lamp bright', { devices })).toEqual(['Odd lamp set_brightness 50']);
  });

  it.each([
    ['colourless green ideas', 'GOAL_NOT_UNDERSTOOD: The rules do not understand "colourless green ideas".'],
    ['turn off the dishwasher', 'NO_SUCH_DEVICE: No device or room is named "dishwasher".'],
    ['lock the ceiling light', 'NOT_POSSIBLE: No device named "ceiling light" can be locked.'],
    ['make the hall warm', 'NOT_POSSIBLE: No device named "hall" can be made warm.'],
    ['...', 'GOAL_NOT_UNDERSTOOD: The rules do not understand "...".'],
    ['turn off everything except the aquarium', 'NO_SUCH_DEVICE: No device or room is named "aquarium".'],
    ['turn off the lights in the bedroom and the kitchen', 'NO_SUCH_DEVICE: No device or room is named "kitchen".'],
    ['set the thermostat to 70', 'NOT_POSSIBLE: No device named "thermostat" can be set to 70 °C.'],
    ['heat the bedroom to 70', 'NOT_POSSIBLE: No device named "bedroom" can be set to 70 °C.'],
  ])('reports what it cannot do: %s', (text, sent) => {
    expect(plan(text)).toEqual([sent]);
  });

  it('does not start a plan with too many steps', () => {
    const devices = Array.from({ length: 101 }, (_, n) => device('light', `Lamp ${n}`, { state: { on: true } }));
    expect(plan('lights off', { devices })).toEqual(['TOO_MANY_STEPS: The goal needs more than 100 steps.']);
  });

  it('ends with the reports of the devices when all steps are done, and gives up when a step is refused', () => {
    const requested = goal('turn off the bed light');
    const first = decide(requested);
    const outcome = {
      success: true,
      status: 'succeeded',
      verification: 'verified',
      code: '',
      deviceState: { on: false },
    };
    const nodes = nodesOf(first, 'succeeded', { outcome });
    expect(decide({ ...requested, context: { ...requested.context, nodes } })).toEqual({
      done: '1 of 1 steps done (Bed light: turn_off).',
      finalState: { devices: { 'id-of-Bed light': { on: false } } },
    });
    const step = nodes[0] as (typeof nodes)[number];
    const refusals = [{ step, code: 'TENANT_SUSPENDED', detail: 'The tenant is suspended.' }];
    expect(shortForm(decide({ ...requested, refusals }))).toEqual([
      'TENANT_SUSPENDED: The step turn_off was refused: The tenant is suspended.',
    ]);
  });

  it('answers every text quickly', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), (text) => {
        expect(shortForm(decide(goal(text))).length).toBeGreaterThan(0);
      }),
      { numRuns: 300 },
    );
    const long = 'turn on when if and then to off is set make '.repeat(200);
    const memories = [memory('routine', 'x', `when ${long}`), memory('preference', 'x', `never turn off ${long}`)];
    expect(relativeCost(() => decide(goal(long, { memories })))).toBeLessThan(100);
  });
});

describe('requests for a device', () => {
  const requested = (more: Parameters<typeof context>[0]) =>
    view({ context: context({ kind: 'device', deviceId: 'id-of-Bed light', ...more }) });

  it('become that action, with its compensation', () => {
    const requestedAction = { action: 'set_brightness', params: { level: 70 } };
    expect(shortForm(decide(requested({ requestedAction })))).toEqual([
      'Bed light set_brightness 70 undone by set_brightness 30',
    ]);
  });

  it('become a goal limited to this device', () => {
    expect(shortForm(decide(requested({ text: 'turn it off' })))).toEqual(['Bed light turn_off undone by turn_on']);
    expect(shortForm(decide(requested({ text: 'make it brighter' })))).toEqual([
      'Bed light set_brightness 50 undone by set_brightness 30',
    ]);
  });

  it.each([
    [{ action: 'fly', params: {} }, "ACTION_NOT_IN_MANIFEST: The device does not offer 'fly'."],
    [{ action: 'set_brightness', params: { level: 101 } }, 'PARAMS_INVALID: params.level must be at most 100'],
    [{ action: 'turn_on', params: { now: true } }, 'PARAMS_INVALID: params.now is unknown'],
  ])('that the device does not support are refused: %o', (requestedAction, sent) => {
    expect(shortForm(decide(requested({ requestedAction })))).toEqual([sent]);
  });
});
