import { displayNameOf, type JsonObject, type JsonValue, type Node, type PlannerInput } from './planner-types.ts';

const SHOWN_STEPS = 10;

/** What was done, in a sentence. */
export function summaryOf({ context, devices }: PlannerInput): string {
  const done = context.nodes.filter(({ state }) => state === 'succeeded');
  const told = done.slice(0, SHOWN_STEPS).map(({ deviceId, action }) => {
    const device = devices.find(({ id }) => id === deviceId);
    return `${device === undefined ? deviceId : displayNameOf(device).slice(0, 60)}: ${action}`;
  });
  const more = done.length > told.length ? `, and ${done.length - told.length} more` : '';
  return `${done.length} of ${context.nodes.length} steps done (${told.join(', ')}${more}).`;
}

/** Devices report what they like: a value that is longer is left out, and devices where there are too many. */
const VALUE_CHARACTERS = 100;
const SHOWN_DEVICES = 50;

/** Of each device that was acted on, what the actions say about its state, as it was last reported. */
export function finalStateOf({ context, devices }: PlannerInput): JsonObject {
  const states: Record<string, JsonObject> = {};
  for (const node of context.nodes) {
    const device = devices.find(({ id }) => id === node.deviceId);
    const expected = device?.tools.get(node.action)?.expected;
    const reported = stateAfter(node, device?.state ?? null);
    if (!expected || reported === null || Object.keys(states).length >= SHOWN_DEVICES) continue;
    const told = Object.keys(expected).flatMap((name) => (isShort(reported[name]) ? [[name, reported[name]]] : []));
    states[node.deviceId] = { ...states[node.deviceId], ...Object.fromEntries(told) };
  }
  return { devices: states };
}

const isShort = (value: JsonValue | undefined): boolean =>
  value !== undefined && JSON.stringify(value).length <= VALUE_CHARACTERS;

const stateAfter = ({ outcome }: Node, shown: JsonObject | null): JsonObject | null => outcome?.deviceState ?? shown;
