import { describe, expect, it } from 'vitest';
import { decide } from '../../sidecar/rules/planner.ts';
import { relativeCost } from '../support/cpu-time.ts';
import { device, goal, memory, shortForm } from './world-fixtures.ts';

// All tenants share the sidecar, and the rules run synchronously.

const plan = (text: string, more: Parameters<typeof goal>[1] = {}) => shortForm(decide(goal(text, more)));

describe('a tenant that tries to occupy the sidecar', () => {
  const lamps = (count: number) =>
    Array.from({ length: count }, (_, n) =>
      device('light', `Lamp ${n}`, { id: `lamp-${n}`, room: `Room ${n}`, state: { on: true, brightness: 99 } }),
    );

  it('is limited with routines that call routines', () => {
    const memories = [
      memory('routine', 'one', 'two;'.repeat(400)),
      memory('routine', 'two', 'three;'.repeat(300)),
      memory('routine', 'three', 'turn off the lights;'.repeat(90)),
    ];
    const cost = relativeCost(() =>
      expect(plan('one', { memories })).toEqual([
        'GOAL_TOO_LONG: The goal, including its routines, has too many sentences.',
      ]),
    );
    expect(cost).toBeLessThan(100);
  });

  it('is limited with many steps on many devices', () => {
    const text = Array.from({ length: 90 }, (_, n) => `dim the lights to ${n + 1} %`).join('; ');
    const devices = lamps(400);
    const cost = relativeCost(() =>
      expect(plan(text, { devices })).toEqual(['TOO_MANY_STEPS: The goal needs more than 100 steps.']),
    );
    expect(cost).toBeLessThan(100);
  });

  it('is limited with long preferences about many devices', () => {
    const never = `never turn off ${'very '.repeat(380)}`;
    const memories = Array.from({ length: 100 }, (_, n) => memory('preference', 'bright', `100 % ${never} ${n}`));
    const devices = lamps(90);
    const cost = relativeCost(() => {
      expect(plan('make the lights bright; '.repeat(90), { devices, memories })).toHaveLength(90);
      expect(plan('turn off the lights; '.repeat(90), { devices, memories })).toHaveLength(90);
    });
    expect(cost).toBeLessThan(300);
  });
});
