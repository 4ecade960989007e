import type { Device, JsonObject, Tool } from '../model.ts';
import { same } from '../schema.ts';
import { clean } from './data.ts';

// Actions as functions that a language model calls.

/** What OpenAI-compatible endpoints take. */
const MOST_FUNCTIONS = 128;
/** Up to here the ids are listed in the schema. */
const LISTED_DEVICES = 40;

export interface Callable {
  name: string;
  tool: Tool;
  devices: Device[];
}

/** One function for each action; where devices mean different things by one name, each meaning has its own. */
export function callablesOf(devices: readonly Device[]): Callable[] {
  const callables: Callable[] = [];
  for (const device of devices) {
    for (const tool of device.tools.values()) {
      const known = callables.find(
        ({ tool: other }) => other.action === tool.action && same(other.params, tool.params),
      );
      if (known !== undefined) known.devices.push(device);
      else callables.push({ name: freeName(tool.functionName, callables), tool, devices: [device] });
    }
  }
  // What many devices can do is what goals are about.
  return callables.sort((a, b) => b.devices.length - a.devices.length).slice(0, MOST_FUNCTIONS - 1);
}

function freeName(wanted: string, taken: readonly Callable[]): string {
  let name = wanted;
  for (let n = 2; name === CANNOT || taken.some((other) => other.name === name); n++)
    name = `${wanted.slice(0, 60)}_${n}`;
  return name;
}

/** The model's way to say that it gives up. */
export const CANNOT = 'cannot_do';

const giveUp = {
  type: 'function',
  function: {
    name: CANNOT,
    description: 'Say that the goal cannot be reached with these devices.',
    parameters: {
      type: 'object',
      properties: { reason: { type: 'string', description: 'One honest sentence for whoever asked' } },
      required: ['reason'],
      additionalProperties: false,
    },
  },
};

export const functionsOf = (callables: readonly Callable[]): JsonObject[] => [...callables.map(functionOf), giveUp];

function functionOf({ name, tool, devices }: Callable): JsonObject {
  const listed = devices.length <= LISTED_DEVICES ? { enum: devices.map(({ id }) => id) } : {};
  const note = tool.critical ? ' Waits for the approval of a person.' : '';
  return {
    type: 'function',
    function: {
      name,
      description: `${clean(tool.description, 300) || tool.action}.${note}`,
      parameters: {
        type: 'object',
        properties: { device_id: { type: 'string', ...listed }, params: { type: 'object', ...tool.params } },
        required:
          Array.isArray(tool.params.required) && tool.params.required.length > 0
            ? ['device_id', 'params']
            : ['device_id'],
        additionalProperties: false,
      },
    },
  };
}
