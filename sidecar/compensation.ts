import { deepEqual, isObject, schemaError } from './json-schema.ts';
import type { ActionCall, JsonObject, JsonValue, PlannerDevice, Tool } from './planner-types.ts';

// Compensations, derived from the manifest's templates of the expected state: a template maps an action to the state it
// causes, and a reported state back to the action that restores it.

/** True if the reported state already matches the action's expected state, and no command may have changed it since. */
export function isAlreadyDone(device: PlannerDevice, act: ActionCall): boolean {
  const expectedState = device.tools.get(act.action)?.expectedState;
  if (device.stateOutdated || device.state === null) return false;
  if (!expectedState || Object.keys(expectedState).length === 0) return false;
  return containsState(device.state, fillTemplate(expectedState, act.params));
}

/**
 * The action that restores the current state, if the device has reported it, no command may have changed it since, and
 * the device has a suitable action. Never a critical one: the plan would need its approval before it starts.
 */
export function compensationFor(device: PlannerDevice, act: ActionCall): ActionCall | null {
  const { state, stateOutdated, tools } = device;
  const expectedState = tools.get(act.action)?.expectedState;
  if (!expectedState || state === null || stateOutdated) return null;
  // Dimming or colouring a light that is off may switch it on.
  const off = { action: 'turn_off', params: {} };
  if (state.on === false && expectedState.on === undefined) {
    const tool = tools.get(off.action);
    if (device.category === 'light' && tool && isUsable(tool, off.params)) return off;
  }
  const names = Object.keys(expectedState);
  if (names.length === 0 || names.some((name) => state[name] === undefined)) return null;
  const before = Object.fromEntries(names.map((name) => [name, state[name] as JsonValue]));
  const sameTool = tools.get(act.action) as Tool;
  // Prefers actions without parameters (`turn_on`), then the same action.
  const candidates = [...tools.values()].sort((a, b) => rank(a, sameTool) - rank(b, sameTool));
  for (const tool of candidates) {
    const params = tool.expectedState === null ? null : matchTemplate(tool.expectedState, before);
    if (params !== null && isUsable(tool, params)) return { action: tool.action, params };
  }
  return null;
}

const rank = (tool: Tool, sameTool: Tool): number =>
  (holdsParams(tool.expectedState) ? 1 : 0) + (tool === sameTool ? 0 : 0.5);

const holdsParams = (template: JsonValue): boolean =>
  templateParamOf(template) !== null || (isObject(template) && Object.values(template).some(holdsParams));

const isUsable = (tool: Tool, params: JsonObject): boolean =>
  !tool.critical && schemaError(tool.params, params) === null;

const templateParamOf = (template: JsonValue): string | null =>
  isObject(template) && Object.keys(template).length === 1 && typeof template.$param === 'string'
    ? template.$param
    : null;

/** Fills in the parameters of a template. Members with a missing parameter are left out. */
function fillTemplate(template: JsonObject, params: JsonObject): JsonObject {
  const members: [string, JsonValue][] = [];
  for (const [name, inner] of Object.entries(template)) {
    const param = templateParamOf(inner);
    const value = param !== null ? params[param] : isObject(inner) ? fillTemplate(inner, params) : inner;
    if (value !== undefined) members.push([name, value]);
  }
  return Object.fromEntries(members);
}

/** The parameters for which the template equals the value; null if there are none. */
function matchTemplate(template: JsonObject, value: JsonObject): JsonObject | null {
  const params = new Map<string, JsonValue>();
  const matches = (pattern: JsonValue, actual: JsonValue | undefined): boolean => {
    if (actual === undefined) return false;
    const param = templateParamOf(pattern);
    if (param !== null) {
      if (params.has(param)) return deepEqual(params.get(param), actual);
      params.set(param, actual);
      return true;
    }
    if (!isObject(pattern) || !isObject(actual)) return deepEqual(pattern, actual);
    const names = Object.keys(pattern);
    return (
      names.length === Object.keys(actual).length &&
      names.every((name) => matches(pattern[name] as JsonValue, actual[name]))
    );
  };
  return matches(template, value) ? Object.fromEntries(params) : null;
}

/** Deep subset for objects, equality for other values: the same rule as the service's state verification. */
function containsState(state: JsonValue | undefined, part: JsonValue): boolean {
  if (!isObject(part) || !isObject(state)) return deepEqual(state, part);
  return Object.entries(part).every(([name, inner]) => containsState(state[name], inner));
}
