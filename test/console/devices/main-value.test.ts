import { describe, expect, it } from 'vitest';
import { lookUp } from '../../../console/src/devices/known-units.ts';
import { iconOfDevice, mainValue } from '../../../console/src/devices/main-value.ts';

describe('what a list shows of a device', () => {
  it('is an icon of its category', () => {
    expect(['smart_light', 'door_lock', 'thermostat', 'outdoor_sensor'].map(iconOfDevice)).toEqual([
      ...['device', 'lock', 'unknownDevice', 'sensor'],
    ]);
  });

  it('is the two values that matter most for its category', () => {
    expect(mainValue('smart_light', { effect: 'none', brightness: 40, on: true })).toBe('on, brightness 40\u00a0%');
    expect(mainValue('door_lock', { battery: 3, locked: false })).toBe('unlocked');
    expect(mainValue('outdoor_sensor', { humidity: 46, temperature: 12.5 })).toBe(
      'temperature 12.5\u00a0°C, humidity 46\u00a0%',
    );
  });

  it('is the first values by name without a category, and nothing without a state', () => {
    expect(mainValue('aquarium_pump', { speed: 3, flow: 2, level: 1 })).toMatch(/^flow 2, level 1/);
    expect(mainValue('smart_light', {})).toBeNull();
  });

  it('has the unit of the manifest or of the name, and a battery is in percent', () => {
    const unitOf = lookUp(new Map([['fill', 'cm']]));
    expect(['fill', 'power_w', 'battery', 'level'].map(unitOf)).toEqual(['cm', 'W', '%', undefined]);
  });
});
