import { isObject, schemaError } from '../json-schema.ts';
import type { ActionCall, JsonValue, PlannerDevice, Tool } from '../planner-types.ts';
import type { Effect, Quality } from './instruction-parser.ts';
import type { Preferences } from './memories.ts';

// Maps an effect to the actions of one device.

/** The surroundings of one device that decide how an effect applies to it. */
export interface EffectScope {
  preferences: Preferences;
  /** All devices of the instruction, including this one. */
  targets: readonly PlannerDevice[];
  /** The target was "everything": only harmless actions apply. */
  isEverything: boolean;
}

/** The actions in their order; null if the device has none for this effect. */
export function deviceActionsFor(effect: Effect, device: PlannerDevice, scope: EffectScope): ActionCall[] | null {
  if ('be' in effect) return single(firstSupported(device, stateActions[effect.be], scope.isEverything));
  if ('run' in effect) return single(firstSupported(device, programActions[effect.run], false));
  if ('celsius' in effect) return celsiusActions(device, effect.celsius);
  if ('amount' in effect) return amountActions(device, effect.amount, scope.targets);
  if ('kelvin' in effect) return single(withValue(device, 'set_color_temperature', 'kelvin', effect.kelvin));
  if ('percent' in effect) return percentActions(device, effect.percent, effect.of);
  if ('more' in effect) return adjustmentActions(device, effect.more);
  if ('mode' in effect) return single(modeAction(device, effect.mode, scope.targets.length === 1));
  return qualityActions(device, effect.quality, scope);
}

/** Candidate actions by state; the first one that the device supports is used. */
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

function firstSupported(device: PlannerDevice, actions: readonly string[], broad: boolean): ActionCall | null {
  // `open everything` means the blinds, neither the doors nor the water.
  const candidates = broad ? actions.slice(0, 1) : actions;
  const action = candidates.find((name) => {
    const tool = device.tools.get(name);
    return tool !== undefined && schemaError(tool.params, {}) === null;
  });
  return action === undefined ? null : { action, params: {} };
}

/** The action with one parameter. Numbers are clamped to the range of the device. */
function withValue(device: PlannerDevice, action: string, usualName: string, value: JsonValue): ActionCall | null {
  const tool = device.tools.get(action);
  const param = tool && paramNameOf(tool, usualName);
  if (tool === undefined || param === undefined) return null;
  const params = { [param]: typeof value === 'number' ? clampToSchema(tool, param, value) : value };
  return schemaError(tool.params, params) === null ? { action, params } : null;
}

/** Null if the value had to be clamped by 1 °C or more: a value of 70 is probably meant in another unit. */
function celsiusActions(device: PlannerDevice, value: number): ActionCall[] | null {
  const acts = climateActions(device, value, null);
  const set = Object.values(acts?.at(-1)?.params ?? {})[0];
  return typeof set === 'number' && Math.abs(set - value) < 1 ? acts : null;
}

/**
 * A number without a unit means degrees if one of the devices has a temperature, and then only for those; otherwise
 * percent.
 */
function amountActions(device: PlannerDevice, value: number, targets: readonly PlannerDevice[]): ActionCall[] | null {
  const heated = targets.some(({ tools }) => tools.has('set_temperature'));
  return heated ? celsiusActions(device, value) : percentActions(device, value, null);
}

/** The usual parameter, or the only one: a tenant's manifest may use another name. */
function paramNameOf(tool: Tool, usualName: string): string | undefined {
  const names = isObject(tool.params.properties) ? Object.keys(tool.params.properties) : [];
  return names.includes(usualName) ? usualName : names.length === 1 ? names[0] : undefined;
}

function clampToSchema(tool: Tool, param: string, value: number): number {
  const schema = isObject(tool.params.properties) ? tool.params.properties[param] : undefined;
  if (!isObject(schema)) return value;
  const { minimum, maximum, type } = schema;
  const low = typeof minimum === 'number' ? Math.max(minimum, value) : value;
  const bound = typeof maximum === 'number' ? Math.min(maximum, low) : low;
  return type === 'integer' ? Math.round(bound) : bound;
}

/**
 * Sets the temperature; first switches the device on and to a suitable mode, if its state needs that. If the state may
 * have changed since it was reported, the device is switched on in any case, and to the mode of a named direction.
 */
function climateActions(
  device: PlannerDevice,
  celsius: number,
  direction: 'heat' | 'cool' | null,
): ActionCall[] | null {
  const set = withValue(device, 'set_temperature', 'celsius', celsius);
  if (set === null) return null;
  const { on, mode: now } = device.state ?? {};
  const outdated = device.stateOutdated;
  const start = on === false || (outdated && on === true) ? withoutParams(device, 'turn_on') : null;
  const isSuitable = outdated ? false : now === direction || now === 'auto';
  const needsMode = direction === null ? now === 'off' : typeof now === 'string' && !isSuitable;
  const setMode = needsMode ? withValue(device, 'set_mode', 'mode', direction ?? 'auto') : null;
  return [start, setMode, set].filter((act) => act !== null);
}

const withoutParams = (device: PlannerDevice, action: string): ActionCall | null =>
  firstSupported(device, [action], false);

function percentActions(
  device: PlannerDevice,
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

function adjustmentActions(device: PlannerDevice, direction: 'warm' | 'cool' | 'bright' | 'dark'): ActionCall[] | null {
  const { target_celsius, brightness, on } = device.state ?? {};
  if (direction === 'warm' || direction === 'cool') {
    if (typeof target_celsius !== 'number') return null;
    const to = target_celsius + (direction === 'warm' ? STEP_CELSIUS : -STEP_CELSIUS);
    return climateActions(device, to, direction === 'warm' ? 'heat' : 'cool');
  }
  const now = on === false ? 0 : brightness;
  if (typeof now !== 'number') return null;
  const to = now + (direction === 'bright' ? STEP_PERCENT : -STEP_PERCENT);
  return single(to <= 0 ? withoutParams(device, 'turn_off') : withValue(device, 'set_brightness', 'level', to));
}

/**
 * A mode of a fixed list; for a single device also free names (program, scene, effect), which only the device can
 * check.
 */
function modeAction(device: PlannerDevice, mode: string, isOnlyTarget: boolean): ActionCall | null {
  const listed =
    withValue(device, 'set_mode', 'mode', mode) ??
    withValue(device, 'set_operating_mode', 'mode', mode) ??
    withValue(device, 'set_fan_speed', 'speed', mode) ??
    withValue(device, 'set_sensitivity', 'level', mode);
  if (listed !== null || !isOnlyTarget) return listed;
  return (
    withValue(device, 'set_program', 'program', mode) ??
    withValue(device, 'activate_scene', 'scene', mode) ??
    withValue(device, 'set_effect', 'effect', mode)
  );
}

/** Defaults without a preference in memory. */
const defaultCelsius: Partial<Record<Quality, number>> = {
  ...{ warm: 22, cosy: 22, comfortable: 21, cool: 19, night: 18, away: 17 },
};
const defaultPercent: Partial<Record<Quality, number>> = { bright: 100, cosy: 40, dim: 30 };
const defaultKelvin: Partial<Record<Quality, number>> = { warm: 2_700, cool: 5_000 };

function qualityActions(
  device: PlannerDevice,
  quality: Quality,
  { preferences, targets }: EffectScope,
): ActionCall[] | null {
  const value = (unit: 'celsius' | 'percent' | 'kelvin', usual: number | undefined) =>
    usual === undefined ? null : (preferences.valueFor(quality, unit, device) ?? usual);
  const celsius = value('celsius', defaultCelsius[quality]);
  if (celsius !== null && device.tools.has('set_temperature')) {
    return climateActions(device, celsius, quality === 'warm' ? 'heat' : quality === 'cool' ? 'cool' : null);
  }
  const level = value('percent', defaultPercent[quality]);
  if (level !== null && device.tools.has('set_brightness')) {
    return single(withValue(device, 'set_brightness', 'level', level));
  }
  if (quality === 'dark' && (device.category === 'light' || device.tools.has('set_brightness'))) {
    return single(withoutParams(device, 'turn_off'));
  }
  // Only `make the lamp warm`: with a heating among the targets, `warm` means its temperature, and lamps are not
  // changed.
  const heated = targets.some(({ tools }) => tools.has('set_temperature'));
  const kelvin = value('kelvin', defaultKelvin[quality]);
  return kelvin === null || heated ? null : single(withValue(device, 'set_color_temperature', 'kelvin', kelvin));
}
