import { isObject, schemaError } from '../json-schema.ts';
import type { ActionCall, Device, JsonValue, Tool } from '../planner-types.ts';
import type { Effect, Quality } from './instruction-parser.ts';
import type { Preferences } from './memories.ts';

// What a effect comes to on one device: its actions, one after another. Null where the device can do nothing of the kind.

/** What a effect is measured against. */
export interface EffectScope {
  preferences: Preferences;
  /** What the effect is about, this device among it. */
  targets: readonly Device[];
  /** Everything was meant, so that nothing dangerous is. */
  isEverything: boolean;
}

export function actionsFor(effect: Effect, device: Device, around: EffectScope): ActionCall[] | null {
  if ('be' in effect) return single(firstSupported(device, stateActions[effect.be], around.isEverything));
  if ('run' in effect) return single(firstSupported(device, programActions[effect.run], false));
  if ('celsius' in effect) return celsiusActions(device, effect.celsius);
  if ('amount' in effect) return amountActions(device, effect.amount, around.targets);
  if ('kelvin' in effect) return single(withValue(device, 'set_color_temperature', 'kelvin', effect.kelvin));
  if ('percent' in effect) return percentActions(device, effect.percent, effect.of);
  if ('more' in effect) return adjustmentActions(device, effect.more);
  if ('mode' in effect) return single(modeAction(device, effect.mode, around.targets.length === 1));
  return qualityActions(device, effect.quality, around);
}

/** The first that the device can do. */
const stateActions = {
  on: ['turn_on'],
  off: ['turn_off'],
  locked: ['lock'],
  unlocked: ['unlock'],
  open: ['open', 'open_valve', 'unlock'],
  closed: ['close', 'close_valve', 'lock'],
  armed: ['arm_alarm'],
  disarmed: ['disarm_alarm'],
} as const satisfies Record<string, readonly string[]>;

const programActions = {
  start: ['start_program'],
  stop: ['stop_program', 'stop'],
  pause: ['pause'],
  resume: ['resume'],
} as const satisfies Record<string, readonly string[]>;

const single = (act: ActionCall | null): ActionCall[] | null => act && [act];

function firstSupported(device: Device, actions: readonly string[], broad: boolean): ActionCall | null {
  // `open everything` means the blinds, neither the doors nor the water.
  const meant = broad ? actions.slice(0, 1) : actions;
  const action = meant.find((name) => {
    const tool = device.tools.get(name);
    return tool !== undefined && schemaError(tool.params, {}) === null;
  });
  return action === undefined ? null : { action, params: {} };
}

/** The action with its one value; numbers are kept within what the device takes. */
function withValue(device: Device, action: string, usual: string, value: JsonValue): ActionCall | null {
  const tool = device.tools.get(action);
  const param = tool && paramNameOf(tool, usual);
  if (tool === undefined || param === undefined) return null;
  const params = { [param]: typeof value === 'number' ? clampToSchema(tool, param, value) : value };
  return schemaError(tool.params, params) === null ? { action, params } : null;
}

/** Somebody who says 70 means another scale: the highest that can be set is not what was asked for. */
function celsiusActions(device: Device, value: number): ActionCall[] | null {
  const acts = climateActions(device, value, null);
  const set = Object.values(acts?.at(-1)?.params ?? {})[0];
  return typeof set === 'number' && Math.abs(set - value) < 1 ? acts : null;
}

/** A number without a unit: degrees where something heats or cools, whose lamps and blinds are left alone, else percent. */
function amountActions(device: Device, value: number, meant: readonly Device[]): ActionCall[] | null {
  const heated = meant.some(({ tools }) => tools.has('set_temperature'));
  return heated ? celsiusActions(device, value) : percentActions(device, value, null);
}

/** A manifest of one's own may call the only parameter otherwise. */
function paramNameOf(tool: Tool, usual: string): string | undefined {
  const names = isObject(tool.params.properties) ? Object.keys(tool.params.properties) : [];
  return names.includes(usual) ? usual : names.length === 1 ? names[0] : undefined;
}

function clampToSchema(tool: Tool, param: string, value: number): number {
  const schema = isObject(tool.params.properties) ? tool.params.properties[param] : undefined;
  if (!isObject(schema)) return value;
  const { minimum, maximum, type } = schema;
  const low = typeof minimum === 'number' ? Math.max(minimum, value) : value;
  const bound = typeof maximum === 'number' ? Math.min(maximum, low) : low;
  return type === 'integer' ? Math.round(bound) : bound;
}

/** Switched on and in a mode that gets there, where the state says that it is not. */
function climateActions(device: Device, celsius: number, way: 'heat' | 'cool' | null): ActionCall[] | null {
  const set = withValue(device, 'set_temperature', 'celsius', celsius);
  if (set === null) return null;
  const { on, mode: now } = device.state ?? {};
  const start = on === false ? withoutParams(device, 'turn_on') : null;
  const wrong = way === null ? now === 'off' : typeof now === 'string' && now !== way && now !== 'auto';
  const turn = wrong ? withValue(device, 'set_mode', 'mode', way ?? 'auto') : null;
  return [start, turn, set].filter((act) => act !== null);
}

const withoutParams = (device: Device, action: string): ActionCall | null => firstSupported(device, [action], false);

function percentActions(
  device: Device,
  value: number,
  of: 'brightness' | 'humidity' | 'position' | null,
): ActionCall[] | null {
  if (of === 'brightness') return single(withValue(device, 'set_brightness', 'level', value));
  if (of === 'humidity') return single(withValue(device, 'set_humidity', 'percent', value));
  if (of === 'position') return single(withValue(device, 'set_position', 'position', value));
  return single(
    withValue(device, 'set_brightness', 'level', value) ??
      withValue(device, 'set_position', 'position', value) ??
      withValue(device, 'set_flow', 'percent', value),
  );
}

const STEP_CELSIUS = 1;
const STEP_PERCENT = 20;

function adjustmentActions(device: Device, way: 'warm' | 'cool' | 'bright' | 'dark'): ActionCall[] | null {
  const { target_celsius, brightness, on } = device.state ?? {};
  if (way === 'warm' || way === 'cool') {
    if (typeof target_celsius !== 'number') return null;
    const to = target_celsius + (way === 'warm' ? STEP_CELSIUS : -STEP_CELSIUS);
    return climateActions(device, to, way === 'warm' ? 'heat' : 'cool');
  }
  const now = on === false ? 0 : brightness;
  if (typeof now !== 'number') return null;
  const to = now + (way === 'bright' ? STEP_PERCENT : -STEP_PERCENT);
  return single(to <= 0 ? withoutParams(device, 'turn_off') : withValue(device, 'set_brightness', 'level', to));
}

/** Modes from a fixed list; a name that only the device can judge where that device alone is meant. */
function modeAction(device: Device, word: string, alone: boolean): ActionCall | null {
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
const defaultCelsius: Partial<Record<Quality, number>> = {
  ...{ warm: 22, cosy: 22, comfortable: 21, cool: 19, night: 18, away: 17 },
};
const defaultPercent: Partial<Record<Quality, number>> = { bright: 100, cosy: 40, dim: 30 };
const defaultKelvin: Partial<Record<Quality, number>> = { warm: 2_700, cool: 5_000 };

function qualityActions(device: Device, wanted: Quality, { preferences, targets }: EffectScope): ActionCall[] | null {
  const value = (unit: 'celsius' | 'percent' | 'kelvin', usual: number | undefined) =>
    usual === undefined ? null : (preferences.valueFor(wanted, unit, device) ?? usual);
  const celsius = value('celsius', defaultCelsius[wanted]);
  if (celsius !== null && device.tools.has('set_temperature')) {
    return climateActions(device, celsius, wanted === 'warm' ? 'heat' : wanted === 'cool' ? 'cool' : null);
  }
  const level = value('percent', defaultPercent[wanted]);
  if (level !== null && device.tools.has('set_brightness')) {
    return single(withValue(device, 'set_brightness', 'level', level));
  }
  if (wanted === 'dark' && (device.category === 'light' || device.tools.has('set_brightness'))) {
    return single(withoutParams(device, 'turn_off'));
  }
  // `make the lamp warm`; a room is made warm by its heating, and its lamps are left alone.
  const heated = targets.some(({ tools }) => tools.has('set_temperature'));
  const kelvin = value('kelvin', defaultKelvin[wanted]);
  return kelvin === null || heated ? null : single(withValue(device, 'set_color_temperature', 'kelvin', kelvin));
}
