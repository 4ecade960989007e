import type { Capability, SafetyClass } from './manifest.ts';
import type { JsonObject } from './values.ts';

/** An action as the registry defines it; a manifest's capability adds an id. */
export type ActionDefinition = Omit<Capability, 'id'>;

interface Traits {
  params?: JsonObject;
  /** Names of optional `params`. */
  optional?: string[];
  expects?: JsonObject;
  safety?: SafetyClass;
  /** Units of reported properties that no parameter refers to. */
  units?: Record<string, string>;
  /** Verification time in seconds; the default suits actions that take effect at once. */
  within?: number;
  /** Default `timeout_s`; that of other actions is `DEFAULT_TIMEOUT_S`. */
  timeout?: number;
}

function action(name: string, description: string, traits: Traits = {}): ActionDefinition {
  const { params = {}, optional = [], expects, safety = 'NORMAL', within, timeout, units } = traits;
  const required = Object.keys(params).filter((param) => !optional.includes(param));
  return {
    action: name,
    description,
    safetyClass: safety,
    paramSchema: {
      type: 'object',
      properties: params,
      ...(required.length > 0 && { required }),
      additionalProperties: false,
    },
    supportsDryRun: expects !== undefined,
    ...(expects !== undefined && { expectedState: expects }),
    ...(within !== undefined && { verify_within_s: within }),
    ...(timeout !== undefined && { timeout_s: timeout }),
    ...(units !== undefined && { units }),
  };
}

const integer = (minimum: number, maximum: number, description: string, unit: string): JsonObject => ({
  ...{ type: 'integer', minimum, maximum, description, unit },
});
const number = (minimum: number, maximum: number, description: string, unit: string): JsonObject => ({
  ...{ type: 'number', minimum, maximum, description, unit },
});
const oneOf = (...values: string[]): JsonObject => ({ type: 'string', enum: values });
const text = (maxLength: number, description: string): JsonObject => ({
  type: 'string',
  minLength: 1,
  maxLength,
  description,
});
const flag: JsonObject = { type: 'boolean' };
const given = (param: string): JsonObject => ({ $param: param });
const percent = (of: string) => integer(0, 100, `${of}, percent`, '%');

/** Actions at the end of every category (contract §5). */
export const maintenanceActions: ActionDefinition[] = [
  action('reboot', 'Restart the device', { safety: 'CRITICAL' }),
  action('factory_reset', 'Erase all settings and restore factory defaults', { safety: 'CRITICAL' }),
  action('update_firmware', 'Install a released firmware version', {
    params: { firmware_id: { type: 'string', minLength: 36, maxLength: 36, description: 'Id of a released version' } },
    safety: 'CRITICAL',
    timeout: 600,
  }),
  action('rotate_key', 'Change the signing key', { safety: 'RESTRICTED' }),
  action('revoke', 'Remove the tenant and its keys from the device', { safety: 'RESTRICTED' }),
];

const powerUnits: Record<string, string> = { power_w: 'W', energy_wh: 'Wh' };
const identify = action('identify', 'Blink or beep so that the device can be located');
const turnOn = action('turn_on', 'Switch on', { expects: { on: true }, units: powerUnits });
const turnOff = action('turn_off', 'Switch off', { expects: { on: false } });
const toggle = action('toggle', 'Switch on if off, off if on');
const childLock = action('set_child_lock', 'Lock or unlock the buttons on the device', {
  params: { enabled: flag },
  expects: { child_lock: given('enabled') },
});
const reportInterval = action('set_report_interval', 'Set how often readings are reported', {
  params: { seconds: integer(1, 86_400, 'Seconds between two reports', 's') },
  expects: { report_interval_s: given('seconds') },
});

/**
 * The actions of each category, without the shared maintenance actions. State names are those that a device reports.
 */
export const actionsByCategory = {
  light: [
    turnOn,
    turnOff,
    toggle,
    action('set_brightness', 'Set the brightness', {
      params: { level: percent('Brightness') },
      expects: { brightness: given('level') },
    }),
    action('set_color', 'Set the colour', {
      params: { hue: integer(0, 360, 'Degrees on the colour wheel', '°'), saturation: percent('Saturation') },
      optional: ['saturation'],
      expects: { color: { hue: given('hue'), saturation: given('saturation') } },
    }),
    action('set_color_temperature', 'Set the colour temperature of white', {
      params: { kelvin: integer(1_000, 12_000, 'Kelvin', 'K') },
      expects: { color_temperature: given('kelvin') },
    }),
    action('set_effect', 'Start or end a light effect', {
      params: { effect: text(64, 'Name of an effect of the light; `none` ends it') },
      expects: { effect: given('effect') },
    }),
    identify,
  ],
  switch: [
    turnOn,
    turnOff,
    toggle,
    action('set_auto_off', 'Switch off automatically some time after switching on', {
      params: { seconds: integer(0, 86_400, 'Seconds; 0 disables it', 's') },
      expects: { auto_off_s: given('seconds') },
    }),
    action('set_power_limit', 'Switch off above this power', {
      params: { watts: integer(0, 25_000, 'Watts; 0 disables the limit', 'W') },
      expects: { power_limit_w: given('watts') },
    }),
    childLock,
    identify,
  ],
  climate: [
    turnOn,
    turnOff,
    action('set_temperature', 'Set the temperature to hold', {
      params: { celsius: number(5, 35, 'Degrees Celsius', '°C') },
      units: { temperature: '°C', outside_temperature: '°C' },
      expects: { target_celsius: given('celsius') },
    }),
    action('set_mode', 'Set the operating mode', {
      params: { mode: oneOf('off', 'heat', 'cool', 'auto', 'dry', 'fan_only') },
      expects: { mode: given('mode') },
    }),
    action('set_fan_speed', 'Set the fan speed', {
      params: { speed: oneOf('auto', 'low', 'medium', 'high') },
      expects: { fan_speed: given('speed') },
    }),
    action('set_humidity', 'Set the humidity to hold', {
      units: { humidity: '%' },
      params: { percent: percent('Relative humidity') },
      expects: { target_humidity: given('percent') },
    }),
    action('set_swing', 'Start or stop swinging the vanes', {
      params: { enabled: flag },
      expects: { swing: given('enabled') },
    }),
    childLock,
  ],
  lock: [
    action('lock', 'Lock', { expects: { locked: true } }),
    action('unlock', 'Unlock', { expects: { locked: false }, safety: 'CRITICAL' }),
    action('unlatch', 'Pull the latch so that the door opens', { expects: { locked: false }, safety: 'CRITICAL' }),
    action('set_auto_lock', 'Lock automatically some time after unlocking', {
      params: { seconds: integer(0, 3_600, 'Seconds; 0 disables it', 's') },
      expects: { auto_lock_s: given('seconds') },
    }),
    action('set_privacy_mode', 'Disable the outside keypad', {
      params: { enabled: flag },
      expects: { privacy_mode: given('enabled') },
    }),
    identify,
  ],
  cover: [
    action('open', 'Open completely', { expects: { position: 100 }, within: 60 }),
    action('close', 'Close completely', { expects: { position: 0 }, within: 60 }),
    action('stop', 'Stop at the current position'),
    action('set_position', 'Open to a position', {
      params: { position: integer(0, 100, '0 is closed, 100 is open', '%') },
      expects: { position: given('position') },
      within: 60,
    }),
    action('set_tilt', 'Tilt the slats', {
      params: { tilt: percent('Tilt') },
      expects: { tilt: given('tilt') },
      within: 30,
    }),
    identify,
  ],
  valve: [
    action('open_valve', 'Open the valve', { expects: { open: true }, safety: 'CRITICAL', within: 30 }),
    action('close_valve', 'Close the valve', { expects: { open: false }, within: 30 }),
    action('set_flow', 'Open the valve partially', {
      params: { percent: percent('Flow') },
      expects: { flow: given('percent') },
      safety: 'CRITICAL',
      within: 30,
    }),
    action('set_leak_protection', 'Set whether the valve closes automatically when water leaks', {
      params: { enabled: flag },
      expects: { leak_protection: given('enabled') },
      safety: 'CRITICAL',
    }),
    reportInterval,
  ],
  sensor: [
    action('read_now', 'Measure and report now', {
      units: { ...{ temperature: '°C', humidity: '%', pressure: 'hPa', illuminance: 'lx', co2: 'ppm' }, ...powerUnits },
    }),
    reportInterval,
    action('set_thresholds', 'Set the bounds outside which the alarm is raised', {
      params: { low: { type: 'number' }, high: { type: 'number' } },
      expects: { thresholds: { low: given('low'), high: given('high') } },
    }),
    action('set_sensitivity', 'Set the sensitivity', {
      params: { level: oneOf('low', 'medium', 'high') },
      expects: { sensitivity: given('level') },
    }),
    action('calibrate', 'Calibrate against a reference value', {
      params: { reference: { type: 'number' } },
      timeout: 300,
    }),
    action('clear_alarm', 'End an alarm', { expects: { alarm: false } }),
    action('set_indicator', 'Switch the indicator light on or off', {
      params: { enabled: flag },
      expects: { indicator: given('enabled') },
    }),
    identify,
  ],
  appliance: [
    turnOn,
    turnOff,
    action('set_program', 'Select the program for the next start', {
      params: { program: text(64, 'Name of a program of the appliance') },
      expects: { program: given('program') },
    }),
    action('start_program', 'Start the program remotely', {
      expects: { running: true },
      safety: 'CRITICAL',
      timeout: 300,
    }),
    action('stop_program', 'End the program', { expects: { running: false } }),
    action('pause', 'Pause the program', { expects: { paused: true } }),
    action('resume', 'Resume the paused program', { expects: { paused: false } }),
    action('set_delay', 'Set a delay before the start', {
      params: { minutes: integer(0, 1_440, 'Minutes; 0 starts without delay', 'min') },
      expects: { delay_min: given('minutes') },
    }),
    childLock,
  ],
  controller: [
    action('activate_scene', 'Activate a stored scene', {
      params: { scene: text(64, 'Name of the scene') },
      expects: { scene: given('scene') },
    }),
    action('set_operating_mode', 'Set the occupancy mode of the home', {
      params: { mode: oneOf('home', 'away', 'night', 'vacation') },
      expects: { operating_mode: given('mode') },
    }),
    action('arm_alarm', 'Arm the alarm', { expects: { armed: true } }),
    action('disarm_alarm', 'Disarm the alarm', { expects: { armed: false }, safety: 'CRITICAL' }),
    action('permit_join', 'Allow new devices to join the local network for some time', {
      params: { seconds: integer(0, 600, 'Seconds; 0 ends it at once', 's') },
      safety: 'CRITICAL',
    }),
    action('sync_time', 'Set the clock from the network'),
    action('run_diagnostics', 'Run diagnostics and report the result'),
    action('set_log_level', 'Set the log level', {
      params: { level: oneOf('error', 'warn', 'info', 'debug') },
      expects: { log_level: given('level') },
    }),
    reportInterval,
  ],
} satisfies Record<string, ActionDefinition[]>;
