import { isObject } from '../json-schema.ts';
import type { Device, JsonObject, JsonValue, Tool } from '../planner-types.ts';
import { sanitizeLine } from './sanitizer.ts';

// Actions as functions that a language model calls.

/** What OpenAI-compatible endpoints take. */
const MAX_FUNCTIONS = 128;
/** Up to here the ids are listed in the schema. */
const LISTED_DEVICES = 40;
const SCHEMA_CHARACTERS = 4_000;

export interface DeviceFunction {
  name: string;
  tool: Tool;
  devices: Device[];
}

/** One function for each action; where devices mean different things by one name, each meaning has its own. */
export function deviceFunctionsOf(devices: readonly Device[]): DeviceFunction[] {
  const meanings = new Map<string, Omit<DeviceFunction, 'name'>>();
  for (const device of devices) {
    for (const tool of device.tools.values()) {
      const meaning = JSON.stringify([tool.action, tool.params]);
      const known = meanings.get(meaning);
      if (known !== undefined) known.devices.push(device);
      else meanings.set(meaning, { tool, devices: [device] });
    }
  }
  // What many devices can do is what goals are about.
  const most = [...meanings.values()].sort((a, b) => b.devices.length - a.devices.length).slice(0, MAX_FUNCTIONS - 1);
  const taken = new Set([CANNOT_DO]);
  return most.map((one) => ({ name: uniqueName(one.tool.functionName, taken), ...one }));
}

function uniqueName(wanted: string, taken: Set<string>): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted.slice(0, 60)}_${n}`;
  taken.add(name);
  return name;
}

/** The model's way to say that it gives up. */
export const CANNOT_DO = 'cannot_do';

const cannotDoSchema = {
  type: 'function',
  function: {
    name: CANNOT_DO,
    description: 'Say that the goal cannot be reached with these devices.',
    parameters: {
      type: 'object',
      properties: { reason: { type: 'string', description: 'One honest sentence for whoever asked' } },
      required: ['reason'],
      additionalProperties: false,
    },
  },
};

export const functionSchemasOf = (callables: readonly DeviceFunction[]): JsonObject[] => [
  ...callables.map(functionSchemaOf),
  cannotDoSchema,
];

/** Manifests are written by tenants: what they say in words is cut, and a schema that is too large is left to be tried. */
function boundedParams({ params }: Tool): JsonObject {
  const shown = withShortDescriptions(params);
  return isObject(shown) && JSON.stringify(shown).length <= SCHEMA_CHARACTERS ? shown : {};
}

function withShortDescriptions(schema: JsonValue): JsonValue {
  if (Array.isArray(schema)) return schema.map(withShortDescriptions);
  if (!isObject(schema)) return schema;
  const members = Object.entries(schema).map(([name, inner]): [string, JsonValue] => [
    name,
    name === 'description' && typeof inner === 'string' ? sanitizeLine(inner, 200) : withShortDescriptions(inner),
  ]);
  return Object.fromEntries(members);
}

function functionSchemaOf({ name, tool, devices }: DeviceFunction): JsonObject {
  const listed = devices.length <= LISTED_DEVICES ? { enum: devices.map(({ id }) => id) } : {};
  const note = tool.critical ? ' Waits for the approval of a person.' : '';
  return {
    type: 'function',
    function: {
      name,
      description: `${sanitizeLine(tool.description, 300) || tool.action}.${note}`,
      parameters: {
        type: 'object',
        properties: { device_id: { type: 'string', ...listed }, params: { type: 'object', ...boundedParams(tool) } },
        required:
          Array.isArray(tool.params.required) && tool.params.required.length > 0
            ? ['device_id', 'params']
            : ['device_id'],
        additionalProperties: false,
      },
    },
  };
}
