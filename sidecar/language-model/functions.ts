import type { Device, JsonObject, JsonValue, Tool } from '../model.ts';
import { isObject } from '../schema.ts';
import { clean } from './data.ts';

// Actions as functions that a language model calls.

/** What OpenAI-compatible endpoints take. */
const MOST_FUNCTIONS = 128;
/** Up to here the ids are listed in the schema. */
const LISTED_DEVICES = 40;
const SCHEMA_CHARACTERS = 4_000;

export interface Callable {
  name: string;
  tool: Tool;
  devices: Device[];
}

/** One function for each action; where devices mean different things by one name, each meaning has its own. */
export function callablesOf(devices: readonly Device[]): Callable[] {
  const meanings = new Map<string, Omit<Callable, 'name'>>();
  for (const device of devices) {
    for (const tool of device.tools.values()) {
      const meaning = JSON.stringify([tool.action, tool.params]);
      const known = meanings.get(meaning);
      if (known !== undefined) known.devices.push(device);
      else meanings.set(meaning, { tool, devices: [device] });
    }
  }
  // What many devices can do is what goals are about.
  const most = [...meanings.values()].sort((a, b) => b.devices.length - a.devices.length).slice(0, MOST_FUNCTIONS - 1);
  const taken = new Set([CANNOT]);
  return most.map((one) => ({ name: freeName(one.tool.functionName, taken), ...one }));
}

function freeName(wanted: string, taken: Set<string>): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted.slice(0, 60)}_${n}`;
  taken.add(name);
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

/** Manifests are written by tenants: what they say in words is cut, and a schema that is too large is left to be tried. */
function shownParams({ params }: Tool): JsonObject {
  const shown = withShortWords(params);
  return isObject(shown) && JSON.stringify(shown).length <= SCHEMA_CHARACTERS ? shown : {};
}

function withShortWords(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(withShortWords);
  if (!isObject(schema)) return schema;
  const members = Object.entries(schema).map(([name, inner]): [string, JsonValue] => [
    name,
    name === 'description' && typeof inner === 'string' ? clean(inner, 200) : withShortWords(inner),
  ]);
  return Object.fromEntries(members);
}

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
        properties: { device_id: { type: 'string', ...listed }, params: { type: 'object', ...shownParams(tool) } },
        required:
          Array.isArray(tool.params.required) && tool.params.required.length > 0
            ? ['device_id', 'params']
            : ['device_id'],
        additionalProperties: false,
      },
    },
  };
}
