import { isObject } from '../json-schema.ts';
import type { JsonObject, JsonValue, PlannerDevice, Tool } from '../planner-types.ts';
import { sanitizeLine } from './sanitizer.ts';

// Device actions as functions for a language model.

/** Limit of OpenAI-compatible endpoints. */
const MAX_FUNCTIONS = 128;
/** Up to this number the device ids are listed in the schema. */
const LISTED_DEVICES = 40;
const SCHEMA_CHARACTERS = 4_000;

export interface DeviceFunction {
  name: string;
  tool: Tool;
  devices: PlannerDevice[];
}

/** One function per action and parameter schema: devices may use the same action name with different parameters. */
export function deviceFunctionsOf(devices: readonly PlannerDevice[]): DeviceFunction[] {
  const functions = new Map<string, Omit<DeviceFunction, 'name'>>();
  for (const device of devices) {
    for (const tool of device.tools.values()) {
      const key = JSON.stringify([tool.action, tool.params]);
      const known = functions.get(key);
      if (known !== undefined) known.devices.push(device);
      else functions.set(key, { tool, devices: [device] });
    }
  }
  // Beyond the limit, functions of few devices are left out: goals mostly need the common ones.
  const common = [...functions.values()]
    .sort((a, b) => b.devices.length - a.devices.length)
    .slice(0, MAX_FUNCTIONS - 1);
  const usedNames = new Set([CANNOT_DO]);
  return common.map((one) => ({ name: uniqueName(one.tool.functionName, usedNames), ...one }));
}

function uniqueName(preferred: string, usedNames: Set<string>): string {
  let name = preferred;
  for (let n = 2; usedNames.has(name); n++) name = `${preferred.slice(0, 60)}_${n}`;
  usedNames.add(name);
  return name;
}

/** The function that the model calls to give up. */
export const CANNOT_DO = 'cannot_do';

const cannotDoSchema = {
  type: 'function',
  function: {
    name: CANNOT_DO,
    description: 'Report that the goal cannot be reached with these devices.',
    parameters: {
      type: 'object',
      properties: { reason: { type: 'string', description: 'The reason, in one sentence for the user' } },
      required: ['reason'],
      additionalProperties: false,
    },
  },
};

export const functionSchemasOf = (deviceFunctions: readonly DeviceFunction[]): JsonObject[] => [
  ...deviceFunctions.map(functionSchemaOf),
  cannotDoSchema,
];

/** Tenants write manifests: descriptions are cut, and a schema that is too large is replaced by an empty one. */
function boundedParams({ params }: Tool): JsonObject {
  const bounded = withShortDescriptions(params);
  return isObject(bounded) && JSON.stringify(bounded).length <= SCHEMA_CHARACTERS ? bounded : {};
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
