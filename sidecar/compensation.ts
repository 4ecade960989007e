import { deepEqual, isObject, schemaError } from './json-schema.ts';
import type { ActionCall, Device, JsonObject, JsonValue, Tool } from './planner-types.ts';

// What a device's actions are known to do: the manifest's templates of the state that proves an action say it both ways.

/** Whether the reported state says that the action has nothing left to do. */
export function isAlreadyDone(device: Device, act: ActionCall): boolean {
  const expected = device.tools.get(act.action)?.expected;
  if (!expected || Object.keys(expected).length === 0 || device.state === null) return false;
  return containsState(device.state, fillTemplate(expected, act.params));
}

/**
 * What brings back what the action changes, where the device has told how it stands and can be told to stand so again.
 * Never a critical action: a plan would ask for its approval before it begins.
 */
export function compensationFor(device: Device, act: ActionCall): ActionCall | null {
  const { state, tools } = device;
  const expected = tools.get(act.action)?.expected;
  if (!expected || state === null) return null;
  // To dim or colour a light that is off may switch it on.
  const off = { action: 'turn_off', params: {} };
  if (state.on === false && expected.on === undefined) {
    const tool = tools.get(off.action);
    if (device.category === 'light' && tool && isUsable(tool, off.params)) return off;
  }
  const names = Object.keys(expected);
  if (names.length === 0 || names.some((name) => state[name] === undefined)) return null;
  const before = Object.fromEntries(names.map((name) => [name, state[name] as JsonValue]));
  const own = tools.get(act.action) as Tool;
  // A fixed word (`turn_on`) rather than a parameter, and the same action rather than another.
  const candidates = [...tools.values()].sort((a, b) => rank(a, own) - rank(b, own));
  for (const tool of candidates) {
    const params = tool.expected === null ? null : matchTemplate(tool.expected, before);
    if (params !== null && isUsable(tool, params)) return { action: tool.action, params };
  }
  return null;
}

const rank = (tool: Tool, own: Tool): number => (holdsParams(tool.expected) ? 1 : 0) + (tool === own ? 0 : 0.5);

const holdsParams = (template: JsonValue): boolean =>
  templateParamOf(template) !== null || (isObject(template) && Object.values(template).some(holdsParams));

const isUsable = (tool: Tool, params: JsonObject): boolean =>
  !tool.critical && schemaError(tool.params, params) === null;

const templateParamOf = (template: JsonValue): string | null =>
  isObject(template) && Object.keys(template).length === 1 && typeof template.$param === 'string'
    ? template.$param
    : null;

/** The template with its parameters filled in; one that is not given leaves its member out. */
function fillTemplate(template: JsonObject, params: JsonObject): JsonObject {
  const members: [string, JsonValue][] = [];
  for (const [name, inner] of Object.entries(template)) {
    const param = templateParamOf(inner);
    const value = param !== null ? params[param] : isObject(inner) ? fillTemplate(inner, params) : inner;
    if (value !== undefined) members.push([name, value]);
  }
  return Object.fromEntries(members);
}

/** The parameters with which the template says just this; null where none do. */
function matchTemplate(template: JsonObject, value: JsonObject): JsonObject | null {
  const params = new Map<string, JsonValue>();
  const fits = (wanted: JsonValue, given: JsonValue | undefined): boolean => {
    if (given === undefined) return false;
    const param = templateParamOf(wanted);
    if (param !== null) {
      if (params.has(param)) return deepEqual(params.get(param), given);
      params.set(param, given);
      return true;
    }
    if (!isObject(wanted) || !isObject(given)) return deepEqual(wanted, given);
    const names = Object.keys(wanted);
    return (
      names.length === Object.keys(given).length && names.every((name) => fits(wanted[name] as JsonValue, given[name]))
    );
  };
  return fits(template, value) ? Object.fromEntries(params) : null;
}

/** Deep subset, exact equality of what is no object: as the service verifies a state. */
function containsState(state: JsonValue | undefined, part: JsonValue): boolean {
  if (!isObject(part) || !isObject(state)) return deepEqual(state, part);
  return Object.entries(part).every(([name, inner]) => containsState(state[name], inner));
}
