import { describe, expect, it } from 'vitest';
import type { Memory } from '../../../sidecar/planner-types.ts';
import { decide } from '../../../sidecar/rules/planner.ts';
import { flat, goal, memory, shortForm } from '../world-fixtures.ts';

const plan = (text: string, more: Parameters<typeof goal>[1] = {}) => shortForm(decide(goal(text, more)));

describe('memories', () => {
  it('prefers a routine of that name to the built-in one', () => {
    const memories = [memory('routine', 'Good night', 'Turn off the lights; then lock the front door')];
    expect(plan('good night', { memories })).toEqual([
      'Ceiling light turn_off undone by turn_on',
      'Bed light turn_off undone by turn_on',
      'Front door lock after ceiling-light-turn-off bed-light-turn-off',
    ]);
  });

  it('lets a routine call another, and ends one that calls itself', () => {
    const memories = [
      memory('routine', 'Leaving', 'lights out; lock the door'),
      memory('routine', 'lights out', 'turn off the bed light'),
      memory('routine', 'loop', 'loop'),
    ];
    expect(plan('run leaving routine', { memories })).toEqual([
      'Bed light turn_off undone by turn_on',
      'Front door lock',
    ]);
    expect(plan('loop', { memories })).toEqual(['GOAL_NOT_UNDERSTOOD: The rules do not understand "loop".']);
  });

  it('are named by the steps that they shaped, and by no others', () => {
    const named = (text: string, memories: readonly Memory[]) => {
      const decision = decide(goal(text, { memories }));
      return 'steps' in decision ? decision.steps.map(({ id, memoryIds }) => [id, ...memoryIds]) : decision;
    };
    const memories = [
      memory('routine', 'Leaving', 'lights out; lock the door'),
      memory('routine', 'lights out', 'turn off the bed light'),
      memory('preference', 'bedroom', 'Warm is 20.5 °C'),
      memory('preference', 'fridge plug', 'Never turn off'),
    ];
    expect(named('leaving', memories)).toEqual([
      ['bed-light-turn-off', 'routine Leaving', 'routine lights out'],
      ['front-door-lock', 'routine Leaving'],
    ]);
    expect(named('make the bedroom warm; lock the door', memories)).toEqual([
      ['radiator-set-temperature', 'preference bedroom'],
      ['front-door-lock'],
    ]);
    const all = named('turn off everything', memories) as string[][];
    expect(new Set(all.flatMap(([, ...ids]) => ids))).toEqual(new Set(['preference fridge plug']));
    expect(named('lock the door', memories)).toEqual([['front-door-lock']]);
  });

  it('does not run half of a routine that names missing devices', () => {
    const memories = [memory('routine', 'movie', 'turn off the lights; turn on the projector')];
    expect(plan('movie', { memories })).toEqual(['NO_SUCH_DEVICE: No device or room is named "projector".']);
  });

  it('takes the preferred temperature of the room, else of any room, else the default', () => {
    const memories = [
      memory('preference', 'bedroom', 'Warm is 20.5 °C'),
      memory('preference', '', '23 degrees', ['warm']),
      memory('preference', 'attic', 'warm means 26 °C'),
    ];
    expect(plan('make the bedroom warm', { memories })).toEqual([
      'Radiator set_temperature 20.5 undone by set_temperature 19',
    ]);
    expect(plan('make the living room warm', { memories: memories.slice(0, 2) })).toEqual([
      'Thermostat set_temperature 23 undone by set_temperature 20',
    ]);
  });

  it('never switch off a device that a preference excludes, unless it is named', () => {
    const devices = flat().filter(({ category }) => category === 'switch' || category === 'light');
    const memories = [memory('preference', 'fridge plug', 'Never turn off')];
    expect(plan('turn off everything', { devices })).toContain('Fridge plug turn_off undone by turn_on');
    expect(plan('turn off everything', { devices, memories })).toEqual([
      'Ceiling light turn_off undone by turn_on',
      'Bed light turn_off undone by turn_on',
    ]);
    expect(plan('turn off the fridge plug', { devices, memories })).toEqual(['Fridge plug turn_off undone by turn_on']);
  });
});
