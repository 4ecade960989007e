import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tools } from '../../../../src/edges/mcp/tools/tool-list.ts';
import { secretStep } from '../../../../src/edges/mcp/tools/write-tools.ts';
import { eventually } from '../../../support/clock.ts';
import type { CallResult, HttpService } from '../../../support/http-service.ts';
import { callTool, codeOf, mcpClient, structured } from '../../../support/mcp.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

// Compares each tool with the same operation in REST: same result, same refusals, same audit entry.

/** The objects of one side; each side creates its own. */
interface Side {
  tenancy: TestTenant;
  deviceId: string;
  lockId: string;
  roomId: string;
  slug: string;
  commandId: string;
  planId: string;
}

interface Row {
  tool: string;
  args(side: Side): Promise<object> | object;
  /** The same request in REST. */
  rest(args: Record<string, never>): [method: string, path: string, body?: object];
  /** The expected result of the tool, derived from the REST response. */
  shows?(body: CallResult['body']): object;
  /** The call is a dry run and changes nothing. */
  leavesNothing?: true;
  /** Arguments that are refused, by refusal code. */
  refused?: Record<string, object>;
}

const query = (given: object): string => {
  const text = new URLSearchParams(
    Object.entries(given).map(([name, value]): [string, string] => [name, `${value}`]),
  ).toString();
  return text === '' ? '' : `?${text}`;
};
const NOWHERE = v7();
const ofDevice = ({ deviceId }: Side) => ({ device_id: deviceId });
const nothingReported = {
  ...{ count: 0, before: null, first: null, last: null, min: null, max: null, mean: null, trend: null, changes: 0 },
  ...{ states: [], gaps: [], points: [] },
};
const step = (device_id: string, more: object = {}) => ({ id: 'on', device_id, action: 'turn_on', ...more });

const rows: Row[] = [
  {
    tool: 'get_device_state',
    args: ofDevice,
    rest: ({ device_id }) => ['GET', `/devices/${device_id}`],
    shows: ({ device: { id, online, last_seen, battery, state, state_version, revoked } }) => ({
      device: { id, online, last_seen, battery, state, state_version, revoked },
    }),
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  {
    tool: 'get_device_detail',
    args: ofDevice,
    rest: ({ device_id }) => ['GET', `/devices/${device_id}`],
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  {
    tool: 'get_device_capabilities',
    args: ofDevice,
    rest: ({ device_id }) => ['GET', `/devices/${device_id}/manifest`],
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  {
    tool: 'get_device_capability_schema',
    args: ({ deviceId }) => ({ device_id: deviceId, action: 'turn_on' }),
    rest: ({ device_id }) => ['GET', `/devices/${device_id}/manifest`],
    shows: ({ deviceId, version, capabilities }) => ({
      ...{ device_id: deviceId, manifest_version: version },
      ...capabilities.find(({ action }: { action: string }) => action === 'turn_on'),
    }),
    refused: { NOT_FOUND: { device_id: NOWHERE, action: 'turn_on' } },
  },
  {
    tool: 'get_device_command_history',
    args: ({ deviceId }) => ({ device_id: deviceId, limit: 1 }),
    rest: ({ device_id, ...more }) => ['GET', `/device/${device_id}/commands${query(more)}`],
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  {
    tool: 'get_timeline',
    args: ({ deviceId }) => ({ device_id: deviceId, limit: 2, kind: ['command'] }),
    rest: ({ device_id, ...more }) => ['GET', `/devices/${device_id}/timeline${query(more)}`],
    refused: { NOT_FOUND: { device_id: NOWHERE }, VALIDATION_FAILED: { device_id: NOWHERE, from: 'yesterday' } },
  },
  {
    // A summary of what REST returns.
    tool: 'get_device_history',
    args: ({ deviceId }) => ({ device_id: deviceId, property: 'brightness' }),
    rest: ({ device_id, property }) => ['GET', `/devices/${device_id}/history?property=${property}&step=30m`],
    shows: ({ history: { device_id, property, step, from, to } }) => ({
      ...{ from, to, step, left_out: [], next_cursor: null },
      series: [{ device_id, device_name: 'Lamp', property, unit: '%', ...nothingReported }],
    }),
    refused: {
      NOT_FOUND: { device_id: NOWHERE, property: 'brightness' },
      VALIDATION_FAILED: { device_id: NOWHERE, property: 'x'.repeat(129) },
    },
  },
  {
    tool: 'get_home_history',
    args: ({ tenancy }) => ({ home_id: tenancy.homeId }),
    rest: ({ home_id }) => ['GET', `/devices?home_id=${home_id}`],
    // No device has reported a state.
    shows: () => ({ from: 'a time', to: 'a time', step: '30m', series: [], left_out: [], next_cursor: null }),
  },
  {
    tool: 'explain_value',
    args: ({ deviceId }) => ({ device_id: deviceId, property: 'on', at: '2026-03-01T12:00:00Z' }),
    rest: ({ device_id, ...more }) => ['GET', `/devices/${device_id}/why${query(more)}`],
    refused: {
      NOT_FOUND: { device_id: NOWHERE, property: 'on' },
      VALIDATION_FAILED: { device_id: NOWHERE, property: '' },
    },
  },
  {
    tool: 'get_command_status',
    args: ({ commandId }) => ({ command_id: commandId }),
    rest: ({ command_id }) => ['GET', `/commands/${command_id}`],
    refused: { NOT_FOUND: { command_id: NOWHERE } },
  },
  {
    tool: 'get_state_verification',
    args: ({ commandId }) => ({ command_id: commandId }),
    rest: ({ command_id }) => ['GET', `/commands/${command_id}`],
    shows: ({ command: { id, verification } }) => ({ command_id: id, verification }),
    refused: { NOT_FOUND: { command_id: NOWHERE } },
  },
  {
    tool: 'list_devices',
    args: () => ({ limit: 2, online: true }),
    rest: (args) => ['GET', `/devices${query(args)}`],
    refused: { VALIDATION_FAILED: { limit: 1_000 } },
  },
  {
    tool: 'list_homes',
    args: () => ({}),
    rest: (args) => ['GET', `/homes${query(args)}`],
    refused: { VALIDATION_FAILED: { limit: 0 } },
  },
  {
    tool: 'list_rooms',
    args: ({ tenancy }) => ({ home_id: tenancy.homeId }),
    rest: ({ home_id }) => ['GET', `/homes/${home_id}/rooms`],
    refused: { NOT_FOUND: { home_id: NOWHERE } },
  },
  {
    tool: 'list_groups',
    args: () => ({}),
    rest: (args) => ['GET', `/groups${query(args)}`],
    refused: { VALIDATION_FAILED: { cursor: 'x' } },
  },
  {
    tool: 'execute_proto_command',
    args: ({ deviceId }) => ({
      target_type: 'device',
      target_id: deviceId,
      action: 'set_brightness',
      params: { level: 40 },
    }),
    rest: ({ target_type: _, target_id, ...body }) => ['POST', `/device/${target_id}/command`, body],
    refused: { NOT_FOUND: { target_type: 'device', target_id: NOWHERE, action: 'turn_on' } },
  },
  {
    tool: 'execute_proto_command',
    args: ({ roomId }) => ({ target_type: 'room', target_id: roomId, action: 'turn_on' }),
    rest: ({ target_type: _, target_id, ...body }) => ['POST', `/rooms/${target_id}/command`, body],
    refused: { NOT_FOUND: { target_type: 'room', target_id: NOWHERE, action: 'turn_on' } },
  },
  {
    tool: 'execute_proto_command',
    args: ({ slug }) => ({ target_type: 'group', target_id: slug, action: 'turn_off' }),
    rest: ({ target_type: _, target_id, ...body }) => ['POST', `/groups/${target_id}/command`, body],
    refused: { NOT_FOUND: { target_type: 'group', target_id: 'nowhere', action: 'turn_on' } },
  },
  {
    // The 409 of REST, without the request id, which only REST adds.
    tool: 'execute_proto_command',
    args: ({ lockId }) => ({ target_type: 'device', target_id: lockId, action: 'unlock' }),
    rest: ({ target_type: _, target_id, ...body }) => ['POST', `/device/${target_id}/command`, body],
    shows: ({ request_id: _, ...body }) => body,
  },
  {
    tool: 'confirm_proto_command',
    async args({ tenancy, lockId }) {
      const { body } = await tenancy.call('POST', `/device/${lockId}/command`, { action: 'unlock' });
      return { device_id: lockId, dry_run_token: body.dry_run_token };
    },
    rest: ({ device_id, ...body }) => ['POST', `/device/${device_id}/command/confirm`, body],
    refused: { NOT_FOUND: { device_id: NOWHERE, dry_run_token: NOWHERE } },
  },
  {
    tool: 'provision_device',
    args: ({ tenancy }) => ({ device_type: 'smart_light', home_id: tenancy.homeId, name: 'New' }),
    rest: (args) => ['POST', '/device/register', args],
    // The only result that differs: the tool returns the next step in place of the secret.
    shows: (body) => ({ ...body, device_secret: null, next_step: secretStep(body.device_id) }),
    refused: { NOT_FOUND: { device_type: 'smart_light', home_id: NOWHERE } },
  },
  {
    tool: 'decommission_device',
    args: async ({ tenancy }) => ({ device_id: (await tenancy.register()).device_id, reason: 'Lost' }),
    rest: ({ device_id, ...body }) => ['POST', `/device/${device_id}/revoke`, body],
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  {
    tool: 'setup_home',
    args: () => ({ home_name: 'Cabin', timezone: 'Europe/Oslo' }),
    rest: (args) => ['POST', '/homes', args],
    refused: { VALIDATION_FAILED: { home_name: '' } },
  },
  {
    tool: 'create_device_group',
    args: ({ deviceId }) => ({ name: 'Dusk', device_ids: [deviceId] }),
    rest: (args) => ['POST', '/groups', args],
    refused: { NOT_FOUND: { name: 'Dusk', device_ids: [NOWHERE] } },
  },
  {
    tool: 'add_devices_to_group',
    args: ({ slug, lockId }) => ({ slug, device_ids: [lockId] }),
    rest: ({ slug, ...body }) => ['POST', `/groups/${slug}/join`, body],
    refused: { NOT_FOUND: { slug: 'nowhere', device_ids: [NOWHERE] } },
  },
  {
    tool: 'check_firmware_update',
    args: ofDevice,
    rest: ({ device_id }) => [
      'POST',
      '/firmware/check',
      { device_type: 'smart_light', current_version: '1.0.0', device_id },
    ],
    refused: { NOT_FOUND: { device_id: NOWHERE } },
  },
  { tool: 'get_manifest_capabilities', args: () => ({}), rest: () => ['GET', '/manifest/capabilities'] },
  {
    tool: 'execute_plan',
    args: ({ lockId }) => ({ name: 'Night', steps: [step(lockId, { action: 'unlock' })], dry_run: true }),
    rest: (args) => ['POST', '/plans', args],
    leavesNothing: true,
    refused: { NOT_FOUND: { steps: [step(NOWHERE)] } },
  },
  {
    tool: 'get_plan_status',
    args: ({ planId }) => ({ plan_id: planId }),
    rest: ({ plan_id }) => ['GET', `/plans/${plan_id}`],
    refused: { NOT_FOUND: { plan_id: NOWHERE } },
  },
  {
    tool: 'write_agent_memory',
    args: () => ({ kind: 'observation', content: 'Lights off at eleven', tags: ['night'] }),
    rest: (args) => ['POST', '/memories', args],
    refused: { VALIDATION_FAILED: { kind: 'routine', content: '\u0007' } },
  },
  {
    tool: 'get_agent_memories',
    args: () => ({ kind: 'observation', limit: 1 }),
    rest: (args) => ['GET', `/memories${query(args)}`],
    refused: { VALIDATION_FAILED: { kind: 'dream' } },
  },
  { tool: 'whoami', args: () => ({}), rest: () => ['GET', '/auth/me'] },
];

let service: HttpService;
let byRest: Side;
let byMcp: Side;
let client: Client;
let viewer: Client;

async function makeSide(): Promise<Side> {
  const tenancy = await makeTestTenant(service);
  const { roomId, call } = tenancy;
  const device = async (more: object): Promise<string> => {
    const { device_id } = await tenancy.register({ room_id: roomId, ...more });
    await tenancy.connect(device_id);
    return device_id;
  };
  const deviceId = await device({ name: 'Lamp' });
  await tenancy.send(deviceId, { type: 'hello.received', firmware: '1.0.0' });
  const lockId = await device({ device_type: 'smart_lock', name: 'Door', room_id: null });
  await setPolicy(tenancy, { agent_confirm_by: 'requester' });
  const { slug } = (await call('POST', '/groups', { name: 'Lights', device_ids: [deviceId] })).body;
  const { command_id } = (await call('POST', `/device/${deviceId}/command`, { action: 'turn_on' })).body;
  const { plan } = (await call('POST', '/plans', { steps: [step(lockId, { action: 'unlock' })] })).body;
  await eventually(async () => (await call('GET', `/plans/${plan.id}`)).body.plan.status === 'awaiting_confirmation');
  return { tenancy, deviceId, lockId, roomId, slug, commandId: command_id, planId: plan.id };
}

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  byRest = await makeSide();
  byMcp = await makeSide();
  client = await mcpClient(service.url, byMcp.tenancy.tokens.owner);
  viewer = await mcpClient(service.url, byMcp.tenancy.tokens.viewer);
});
afterAll(async () => {
  await Promise.all([client.close(), viewer.close()]);
  await service.close();
});

/** Replaces ids by their order of occurrence, and times and cursors by placeholders. */
function comparable(value: unknown): unknown {
  const seen = new Map<string, string>();
  return JSON.parse(
    JSON.stringify(value, (name, member) => {
      if (name === 'next_cursor' && typeof member === 'string') return 'a cursor';
      if (typeof member !== 'string') return member;
      if (name === 'tenant_slug') return 'a slug';
      if (/^\d{4}-\d\d-\d\dT/.test(member)) return 'a time';
      // A token at /mcp is no person's.
      if (name === 'writer') return 'a writer';
      return member.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
        if (!seen.has(id)) seen.set(id, `id ${seen.size}`);
        return seen.get(id) as string;
      });
    }),
  );
}

const newestEntry = async ({ tenancy }: Side) => {
  const { action, subject, outcome, via } = (await tenancy.call('GET', '/audit?limit=1')).body.entries[0];
  return { via, action, outcome, about: subject.split(':')[0] };
};
const askRest = (row: Row, args: object, token = byRest.tenancy.tokens.owner) => {
  const [method, path, body] = row.rest(args as never);
  return byRest.tenancy.call(method, path, body, { token });
};

it('every tool is covered', () => {
  expect(new Set(rows.map(({ tool }) => tool))).toEqual(new Set(tools.map(({ name }) => name)));
});

describe.each(rows)('$tool', (row) => {
  it('returns what REST returns, and writes the same audit entry', async () => {
    const { body } = await askRest(row, await row.args(byRest));
    const restEntry = await newestEntry(byRest);
    const result = await callTool(client, row.tool, await row.args(byMcp));
    const mcpEntry = await newestEntry(byMcp);
    expect(result.isError).toBeUndefined();
    expect(comparable(structured(result))).toEqual(comparable(row.shows?.(body) ?? body));
    const changes = tools.find(({ name }) => name === row.tool)?.operation.changes === true;
    if (changes && row.leavesNothing !== true) expect(mcpEntry).toEqual({ ...restEntry, via: 'mcp' });
  });

  it('refuses what REST refuses, with the same code and message', async () => {
    for (const [code, args] of Object.entries(row.refused ?? {})) {
      const { body } = await askRest(row, args);
      const result = await callTool(client, row.tool, args);
      expect([codeOf(result), body.code]).toEqual([code, code]);
      const notified = result._meta?.['twinkeep/refusal'] as { detail: string };
      expect(notified.detail).toBe(body.detail);
    }
  });

  it('requires the same role as REST', async () => {
    const args = await row.args(byMcp);
    const { status, body } = await askRest(row, await row.args(byRest), byRest.tenancy.tokens.viewer);
    const result = await callTool(viewer, row.tool, args);
    expect(codeOf(result)).toBe(status >= 400 ? body.code : null);
    if (codeOf(result) === 'FORBIDDEN_ROLE') {
      const entry = await eventually(async () => {
        const newest = await newestEntry(byMcp);
        return newest.outcome === 'FORBIDDEN_ROLE' ? newest : null;
      });
      expect(entry).toMatchObject({ via: 'mcp', outcome: 'FORBIDDEN_ROLE' });
    }
  });
});

it('a plan has the same result, and writes the same audit entry', async () => {
  const on = ({ lockId }: Side) => ({ name: 'Night', steps: [step(lockId, { action: 'unlock' })] });
  const made = (await byRest.tenancy.call('POST', '/plans', on(byRest))).body.plan;
  const restEntry = await entryOf(byRest, `plan:${made.id}`);
  const plan = await eventually(async () => {
    const now = (await byRest.tenancy.call('GET', `/plans/${made.id}`)).body.plan;
    return now.status === 'awaiting_confirmation' ? now : null;
  });
  const body = structured(await callTool(client, 'execute_plan', on(byMcp)));
  expect(comparable(body)).toEqual(comparable({ plan }));
  expect(await entryOf(byMcp, `plan:${body.plan.id}`)).toEqual({ ...restEntry, via: 'mcp' });
});

const entryOf = ({ tenancy }: Side, subject: string) =>
  eventually(async () => {
    const { entries } = (await tenancy.call('GET', '/audit')).body;
    const found = entries.find(
      (one: { subject: string; action: string }) => one.subject === subject && one.action === 'createPlan',
    );
    return found === undefined ? null : { via: found.via, action: found.action, outcome: found.outcome };
  });
