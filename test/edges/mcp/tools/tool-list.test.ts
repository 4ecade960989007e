import { describe, expect, it } from 'vitest';
import { tools } from '../../../../src/edges/mcp/tools/tool-list.ts';

describe('every tool', () => {
  it('has a description, an input and an output schema, and correct annotations', () => {
    for (const { name, title, description, inputSchema, outputSchema, annotations, operation } of tools) {
      expect(description.length).toBeGreaterThan(20);
      expect(title).not.toBe('');
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(outputSchema.type).toBe('object');
      expect([name, annotations.readOnlyHint]).toEqual([name, !operation.changes]);
      expect(JSON.stringify([inputSchema, outputSchema])).not.toMatch(/\$ref|"noun"|\$schema/);
    }
    const destructive = tools.filter(({ annotations }) => annotations.destructiveHint).map(({ name }) => name);
    expect(destructive).toEqual([
      ...['execute_proto_command', 'confirm_proto_command', 'decommission_device', 'execute_plan'],
    ]);
  });

  it('has the arguments of the contract', () => {
    const argumentsOf = (name: string) =>
      Object.keys(tools.find((tool) => tool.name === name)?.inputSchema.properties as object);
    expect(argumentsOf('execute_proto_command')).toEqual(['target_type', 'target_id', 'action', 'params', 'dry_run']);
    expect(argumentsOf('confirm_proto_command')).toEqual(['dry_run_token', 'device_id', 'preview_hash']);
    expect(argumentsOf('get_device_capability_schema')).toEqual(['device_id', 'action']);
    expect(argumentsOf('get_state_verification')).toEqual(['command_id']);
    expect(argumentsOf('add_devices_to_group')).toEqual(['slug', 'device_ids']);
    expect(argumentsOf('check_firmware_update')).toEqual(['device_id']);
    expect(argumentsOf('get_plan_status')).toEqual(['plan_id']);
    expect(argumentsOf('get_device_command_history')).toEqual(['device_id', 'limit', 'cursor']);
    expect(argumentsOf('get_timeline')).toEqual([
      ...['device_id', 'home_id', 'room_id', 'kind', 'from', 'to', 'limit', 'cursor'],
    ]);
    const common = ['from', 'to', 'points', 'limit', 'cursor'];
    expect(argumentsOf('get_device_history')).toEqual(['device_id', 'property', ...common]);
    expect(argumentsOf('get_home_history')).toEqual(['home_id', 'room_id', 'property', ...common]);
    expect(argumentsOf('explain_value')).toEqual(['device_id', 'property', 'at']);
  });
});
