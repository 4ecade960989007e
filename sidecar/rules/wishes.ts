import type { Act, Device, JsonValue, Tool } from '../model.ts';
import { isObject, misfit } from '../schema.ts';
import type { Quality, Wish } from './instructions.ts';
import type { Preferences } from './memories.ts';

// What a wish comes to on one device: its actions, one after another. Null where the device can do nothing of the kind.

/** What a wish is measured against. */
export interface Surroundings {
  preferences: Preferences;
  /** What the wish is about, this device among it. */
  meant: readonly Device[];
  /** Everything was meant, so that nothing dangerous is. */
  broad: boolean;
}

export function actsFor(wish: Wish, device: Device, around: Surroundings): Act[] | null {
  if ('be' in wish) return one(firstOf(device, statesOf[wish.be], around.broad));
  if ('run' in wish) return one(firstOf(device, runs[wish.run], false));
  if ('celsius' in wish) return celsius(device, wish.celsius);
  if ('amount' in wish) return amount(device, wish.amount, around.meant);
  if ('kelvin' in wish) return one(withValue(device, 'set_color_temperature', 'kelvin', wish.kelvin));
  if ('percent' in wish) return percent(device, wish.percent, wish.of);
  if ('more' in wish) return more(device, wish.more);
  if ('mode' in wish) return one(mode(device, wish.mode, around.meant.length === 1));
  return quality(device, wish.quality, around);
}

/** The first that the device can do. */
const statesOf = {
  on: ['turn_on'],
  off: ['turn_off'],
  locked: ['lock'],
  unlocked: ['unlock'],
  open: ['open', 'open_valve', 'unlock'],
  closed: ['close', 'close_valve', 'lock'],
  armed: ['arm_alarm'],
  disarmed: ['disarm_alarm'],
} as const satisfies Record<string, readonly string[]>;

const runs = {
  start: ['start_program'],
  stop: ['stop_program', 'stop'],
  pause: ['pause'],
  resume: ['resume'],
} as const satisfies Record<string, readonly string[]>;

const one = (act: Act | null): Act[] | null => act && [act];

function firstOf(device: Device, actions: readonly string[], broad: boolean): Act | null {
  // `open everything` means the blinds, neither the doors nor the water.
  const meant = broad ? actions.slice(0, 1) : actions;
  const action = meant.find((name) => {
    const tool = device.tools.get(name);
    return tool !== undefined && misfit(tool.params, {}) === null;
  });
  return action === undefined ? null : { action, params: {} };
}

/** The action with its one value; numbers are kept within what the device takes. */
function withValue(device: Device, action: string, usual: string, value: JsonValue): Act | null {
  const tool = device.tools.get(action);
  const param = tool && paramOf(tool, usual);
  if (tool === undefined || param === undefined) return null;
  const params = { [param]: typeof value === 'number' ? within(tool, param, value) : value };
  return misfit(tool.params, params) === null ? { action, params } : null;
}

/** Somebody who says 70 means another scale: the highest that can be set is not what was asked for. */
function celsius(device: Device, value: number): Act[] | null {
  const acts = climate(device, value, null);
  const set = Object.values(acts?.at(-1)?.params ?? {})[0];
  return typeof set === 'number' && Math.abs(set - value) < 1 ? acts : null;
}

/** A number without a unit: degrees where something heats or cools, whose lamps and blinds are left alone, else percent. */
function amount(device: Device, value: number, meant: readonly Device[]): Act[] | null {
  const heated = meant.some(({ tools }) => tools.has('set_temperature'));
  return heated ? celsius(device, value) : percent(device, value, null);
}

/** A manifest of one's own may call the only parameter otherwise. */
function paramOf(tool: Tool, usual: string): string | undefined {
  const names = isObject(tool.params.properties) ? Object.keys(tool.params.properties) : [];
  return names.includes(usual) ? usual : names.length === 1 ? names[0] : undefined;
}

function within(tool: Tool, param: string, value: number): number {
  const schema = isObject(tool.params.properties) ? tool.params.properties[param] : undefined;
  if (!isObject(schema)) return value;
  const { minimum, maximum, type } = schema;
  const low = typeof minimum === 'number' ? Math.max(minimum, value) : value;
  const bound = typeof maximum === 'number' ? Math.min(maximum, low) : low;
  return type === 'integer' ? Math.round(bound) : bound;
}

/** Switched on and in a mode that gets there, where the state says that it is not. */
function climate(device: Device, celsius: number, way: 'heat' | 'cool' | null): Act[] | null {
  const set = withValue(device, 'set_temperature', 'celsius', celsius);
  if (set === null) return null;
  const { on, mode: now } = device.state ?? {};
  const start = on === false ? withoutParams(device, 'turn_on') : null;
  const wrong = way === null ? now === 'off' : typeof now === 'string' && now !== way && now !== 'auto';
  const turn = wrong ? withValue(device, 'set_mode', 'mode', way ?? 'auto') : null;
  return [start, turn, set].filter((act) => act !== null);
}

const withoutParams = (device: Device, action: string): Act | null => firstOf(device, [action], false);

function percent(device: Device, value: number, of: 'brightness' | 'humidity' | 'position' | null): Act[] | null {
  if (of === 'brightness') return one(withValue(device, 'set_brightness', 'level', value));
  if (of === 'humidity') return one(withValue(device, 'set_humidity', 'percent', value));
  if (of === 'position') return one(withValue(device, 'set_position', 'position', value));
  return one(
    withValue(device, 'set_brightness', 'level', value) ??
      withValue(device, 'set_position', 'position', value) ??
      withValue(device, 'set_flow', 'percent', value),
  );
}

const STEP_CELSIUS = 1;
const STEP_PERCENT = 20;

function more(device: Device, way: 'warm' | 'cool' | 'bright' | 'dark'): Act[] | null {
  const { target_celsius, brightness, on } = device.state ?? {};
  if (way === 'warm' || way === 'cool') {
    if (typeof target_celsius !== 'number') return null;
    const to = target_celsius + (way === 'warm' ? STEP_CELSIUS : -STEP_CELSIUS);
    return climate(device, to, way === 'warm' ? 'heat' : 'cool');
  }
  const now = on === false ? 0 : brightness;
  if (typeof now !== 'number') return null;
  const to = now + (way === 'bright' ? STEP_PERCENT : -STEP_PERCENT);
  return one(to <= 0 ? withoutParams(device, 'turn_off') : withValue(device, 'set_brightness', 'level', to));
}

/** Modes from a fixed list; a name that only the device can judge where that device alone is meant. */
function mode(device: Device, word: string, alone: boolean): Act | null {
  const listed =
    withValue(device, 'set_mode', 'mode', word) ??
    withValue(device, 'set_operating_mode', 'mode', word) ??
    withValue(device, 'set_fan_speed', 'speed', word) ??
    withValue(device, 'set_sensitivity', 'level', word);
  if (listed !== null || !alone) return listed;
  return (
    withValue(device, 'set_program', 'program', word) ??
    withValue(device, 'activate_scene', 'scene', word) ??
    withValue(device, 'set_effect', 'effect', word)
  );
}

/** Where nobody prefers anything else. */
const usualCelsius: Partial<Record<Quality, number>> = {
  ...{ warm: 22, cosy: 22, comfortable: 21, cool: 19, night: 18, away: 17 },
};
const usualPercent: Partial<Record<Quality, number>> = { bright: 100, cosy: 40, dim: 30 };
const usualKelvin: Partial<Record<Quality, number>> = { warm: 2_700, cool: 5_000 };

function quality(device: Device, wanted: Quality, { preferences, meant }: Surroundings): Act[] | null {
  const value = (unit: 'celsius' | 'percent' | 'kelvin', usual: number | undefined) =>
    usual === undefined ? null : (preferences.number(wanted, unit, device) ?? usual);
  const celsius = value('celsius', usualCelsius[wanted]);
  if (celsius !== null && device.tools.has('set_temperature')) {
    return climate(device, celsius, wanted === 'warm' ? 'heat' : wanted === 'cool' ? 'cool' : null);
  }
  const level = value('percent', usualPercent[wanted]);
  if (level !== null && device.tools.has('set_brightness')) {
    return one(withValue(device, 'set_brightness', 'level', level));
  }
  if (wanted === 'dark' && (device.category === 'light' || device.tools.has('set_brightness'))) {
    return one(withoutParams(device, 'turn_off'));
  }
  // `make the lamp warm`; a room is made warm by its heating, and its lamps are left alone.
  const heated = meant.some(({ tools }) => tools.has('set_temperature'));
  const kelvin = value('kelvin', usualKelvin[wanted]);
  return kelvin === null || heated ? null : one(withValue(device, 'set_color_temperature', 'kelvin', kelvin));
}
