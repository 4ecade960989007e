import type { JsonObject } from '../../../src/domain/values.ts';
import { REFUSAL_META_KEY } from '../../../src/edges/mcp/tool-results.ts';
import { callTool, mcpClient } from '../../support/mcp.ts';
import type { Edge } from './edge-client.ts';

interface Named {
  tool: string;
  /** Arguments whose names differ from the members of the operation's input. */
  names?: Readonly<Record<string, string>>;
  more?: JsonObject;
  /** Responses that differ: secrets are hidden, and a plan is returned after its next transition. */
  omits?: readonly string[];
}

const device = { deviceId: 'device_id' };
const execute = (type: string, member: string): Named => ({
  tool: 'execute_proto_command',
  names: { [member]: 'target_id' },
  more: { target_type: type },
});

/** The tools that map to one operation, by its name. */
const tools: Readonly<Record<string, Named>> = {
  getMe: { tool: 'whoami' },
  listDevices: { tool: 'list_devices' },
  getDevice: { tool: 'get_device_detail', names: { id: 'device_id' } },
  listHomes: { tool: 'list_homes' },
  listRooms: { tool: 'list_rooms', names: { homeId: 'home_id' } },
  listGroups: { tool: 'list_groups' },
  getManifest: { tool: 'get_device_capabilities', names: device },
  listCapabilities: { tool: 'get_manifest_capabilities' },
  listCommands: { tool: 'get_device_command_history', names: device },
  getCommand: { tool: 'get_command_status', names: { id: 'command_id' } },
  getPlan: { tool: 'get_plan_status', names: { id: 'plan_id' } },
  listMemories: { tool: 'get_agent_memories' },
  commandDevice: execute('device', 'deviceId'),
  commandRoom: execute('room', 'roomId'),
  commandGroup: execute('group', 'groupSlug'),
  confirmCommand: { tool: 'confirm_proto_command', names: device },
  registerDevice: { tool: 'provision_device', omits: ['device_secret'] },
  revokeDevice: { tool: 'decommission_device', names: { id: 'device_id' } },
  createHome: { tool: 'setup_home' },
  createGroup: { tool: 'create_device_group' },
  joinGroup: { tool: 'add_devices_to_group' },
  writeMemory: { tool: 'write_agent_memory', omits: ['writer', 'suggestion'] },
  createPlan: { tool: 'execute_plan', omits: ['status', 'command_id'] },
};

/** A request that only one edge accepts cannot be compared. */
const OTHERS = new Set(['token', 'device_id', 'capability', 'ttl_s', 'timeout_s', 'reason']);

export const mcp: Edge = {
  name: 'MCP',
  via: 'mcp',
  has: ({ route, input, token }) =>
    Object.hasOwn(tools, route.operation.name) &&
    token !== undefined &&
    !Object.keys(input).some((member) => OTHERS.has(member)),
  omits: ({ operation }) => tools[operation.name]?.omits ?? [],
  async call({ service, route, input, token = '' }) {
    const { tool, names = {}, more = {} } = tools[route.operation.name] as Named;
    const given = Object.entries(input).map(([member, value]) => [names[member] ?? member, value]);
    const client = await mcpClient(service.url, token);
    try {
      const { isError, structuredContent, _meta } = await callTool(client, tool, {
        ...more,
        ...Object.fromEntries(given),
      });
      return isError ? (_meta?.[REFUSAL_META_KEY] as { code: string; detail: string }) : { body: structuredContent };
    } finally {
      await client.close();
    }
  },
};
