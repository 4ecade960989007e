import { displayNameOf, type JsonObject, type JsonValue, type Node, type PlannerInput } from './planner-types.ts';

const SHOWN_STEPS = 10;

/** One sentence about the completed steps. */
export function summaryOf({ context, devices }: PlannerInput): string {
  const done = context.nodes.filter(({ state }) => state === 'succeeded');
  const listed = done.slice(0, SHOWN_STEPS).map(({ deviceId, action }) => {
    const device = devices.find(({ id }) => id === deviceId);
    return `${device === undefined ? deviceId : displayNameOf(device).slice(0, 60)}: ${action}`;
  });
  const more = done.length > listed.length ? `, and ${done.length - listed.length} more` : '';
  return `${done.length} of ${context.nodes.length} steps done (${listed.join(', ')}${more}).`;
}

/** Bounds of the final state: longer values and further devices are left out. */
const VALUE_CHARACTERS = 100;
const SHOWN_DEVICES = 50;

/** For each device with a step: the last reported values of the properties in the actions' expected states. */
export function finalStateOf({ context, devices }: PlannerInput): JsonObject {
  const states: Record<string, JsonObject> = {};
  for (const node of context.nodes) {
    const device = devices.find(({ id }) => id === node.deviceId);
    const expectedState = device?.tools.get(node.action)?.expectedState;
    const reported = stateAfter(node, device?.state ?? null);
    if (!expectedState || reported === null || Object.keys(states).length >= SHOWN_DEVICES) continue;
    const values = Object.keys(expectedState).flatMap((name) =>
      isShort(reported[name]) ? [[name, reported[name]]] : [],
    );
    states[node.deviceId] = { ...states[node.deviceId], ...Object.fromEntries(values) };
  }
  return { devices: states };
}

const isShort = (value: JsonValue | undefined): boolean =>
  value !== undefined && JSON.stringify(value).length <= VALUE_CHARACTERS;

const stateAfter = ({ outcome }: Node, lastState: JsonObject | null): JsonObject | null =>
  outcome?.deviceState ?? lastState;
