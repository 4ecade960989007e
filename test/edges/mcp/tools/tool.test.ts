import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { v4, v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { callTool, codeOf, mcpClient, structured, transports } from '../../../support/mcp.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

/** In the order of the specification's table. */
const NAMES = [
  ...['get_device_state', 'get_device_capabilities', 'get_device_command_history', 'get_command_status'],
  ...['get_timeline', 'get_device_history', 'get_home_history', 'explain_value'],
  ...['list_devices', 'get_device_detail', 'list_homes', 'list_rooms', 'list_groups'],
  ...['execute_proto_command', 'confirm_proto_command', 'provision_device', 'decommission_device'],
  ...['setup_home', 'create_device_group', 'add_devices_to_group'],
  ...['check_firmware_update', 'get_manifest_capabilities', 'get_device_capability_schema'],
  ...[
    'execute_plan',
    'get_plan_status',
    'get_state_verification',
    'write_agent_memory',
    'get_agent_memories',
    'whoami',
  ],
];

let service: HttpService;
let mine: TestTenant;
let other: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  other = await makeTestTenant(service);
  await setPolicy(mine, { agent_confirm_by: 'requester' });
});
afterAll(() => service.close());

const light = async (more: object = {}): Promise<string> => {
  const { device_id } = await mine.register({ name: 'Desk lamp', room_id: mine.roomId, ...more });
  await mine.connect(device_id);
  return device_id;
};

describe.each(transports)('over %s', (transport) => {
  let client: Client;
  let asViewer: Client;
  let foreign: Client;
  beforeAll(async () => {
    client = await mcpClient(service.url, mine.tokens.owner, { transport });
    asViewer = await mcpClient(service.url, mine.tokens.viewer, { transport });
    foreign = await mcpClient(service.url, other.tokens.owner, { transport });
    // From now on the client validates each result against the tool's output schema.
    await client.listTools();
  });
  afterAll(() => Promise.all([client.close(), asViewer.close(), foreign.close()]));

  const call = async (name: string, args: object = {}) => {
    const result = await callTool(client, name, args);
    if (result.isError) throw new Error(JSON.stringify(result.content));
    return structured(result);
  };
  const refused = async (name: string, args: object, by = client) => codeOf(await callTool(by, name, args));
  const byRest = async (path: string) => (await mine.call('GET', path)).body;

  it('the owner sees all tools, in the order of the table', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(NAMES);
  });

  it('a viewer sees the tools of a viewer, and may call no others', async () => {
    const { tools } = await asViewer.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      ...['get_device_capabilities', 'list_homes', 'list_rooms'],
      ...[
        'get_manifest_capabilities',
        'get_device_capability_schema',
        'get_plan_status',
        'get_agent_memories',
        'whoami',
      ],
    ]);
    expect(await refused('list_devices', {}, asViewer)).toBe('FORBIDDEN_ROLE');
    expect(await refused('setup_home', { home_name: 'Mine' }, asViewer)).toBe('FORBIDDEN_ROLE');
  });

  it('an unknown tool is a protocol error', async () => {
    await expect(callTool(client, 'open_the_pod_bay_doors')).rejects.toMatchObject({ code: -32602 });
  });

  describe('that read', () => {
    it('return a device as REST does', async () => {
      const id = await light();
      await mine.report(id, { power: 'on', brightness: 40 });
      const { device } = await byRest(`/devices/${id}`);
      expect((await call('get_device_detail', { device_id: id })).device).toEqual(device);
      const state = (await call('get_device_state', { device_id: id })).device;
      expect(state).toEqual({
        ...{ id, online: true, last_seen: device.last_seen, battery: device.battery, revoked: false },
        ...{ state: { power: 'on', brightness: 40 }, state_version: device.state_version },
      });
    });

    it('return the capabilities of a device, and the parameters of one action', async () => {
      const id = await light();
      const manifest = await byRest(`/devices/${id}/manifest`);
      expect(await call('get_device_capabilities', { device_id: id })).toEqual(manifest);
      const dim = manifest.capabilities.find(({ action }: { action: string }) => action === 'set_brightness');
      expect(await call('get_device_capability_schema', { device_id: id, action: 'set_brightness' })).toEqual({
        ...{ device_id: id, manifest_version: manifest.version },
        ...dim,
      });
      expect(await call('get_manifest_capabilities')).toEqual(await byRest('/manifest/capabilities'));
    });

    it('return lists in pages, as REST does', async () => {
      await light();
      await light();
      const first = await call('list_devices', { limit: 1, home_id: mine.homeId });
      expect(first.devices).toHaveLength(1);
      const second = await call('list_devices', { limit: 1, home_id: mine.homeId, cursor: first.next_cursor });
      expect(second.devices[0].id).not.toBe(first.devices[0].id);
      expect(second).toEqual(await byRest(`/devices?limit=1&home_id=${mine.homeId}&cursor=${first.next_cursor}`));
      expect(await refused('list_devices', { limit: 1, cursor: first.next_cursor })).toBe('VALIDATION_FAILED');
      expect(await call('list_homes')).toEqual(await byRest('/homes'));
      expect(await call('list_rooms', { home_id: mine.homeId })).toEqual(await byRest(`/homes/${mine.homeId}/rooms`));
      expect(await call('list_groups')).toEqual(await byRest('/groups'));
    });

    it('return the user of the agent', async () => {
      expect(await call('whoami')).toEqual(await byRest('/auth/me'));
    });

    it('find nothing of another tenant', async () => {
      const id = await light();
      const { command_id } = await call('execute_proto_command', {
        ...{ target_type: 'device', target_id: id, action: 'turn_on' },
      });
      for (const name of [
        'get_device_state',
        'get_device_detail',
        'get_device_capabilities',
        'check_firmware_update',
      ]) {
        expect([name, await refused(name, { device_id: id }, foreign)]).toEqual([name, 'NOT_FOUND']);
      }
      expect(await refused('get_device_capability_schema', { device_id: id, action: 'turn_on' }, foreign)).toBe(
        'NOT_FOUND',
      );
      expect(await refused('get_device_command_history', { device_id: id }, foreign)).toBe('NOT_FOUND');
      expect(await refused('get_command_status', { command_id }, foreign)).toBe('NOT_FOUND');
      expect(await refused('get_state_verification', { command_id }, foreign)).toBe('NOT_FOUND');
      expect(await refused('list_rooms', { home_id: mine.homeId }, foreign)).toBe('NOT_FOUND');
      expect(await refused('get_plan_status', { plan_id: v7() }, foreign)).toBe('NOT_FOUND');
    });

    it('list the events of a device, a home and a room, with a summary and within a bound', async () => {
      const id = await light();
      for (const action of ['turn_off', 'turn_on']) {
        service.clock.advance(1_000);
        await call('execute_proto_command', { target_type: 'device', target_id: id, action });
      }
      const result = await callTool(client, 'get_timeline', { device_id: id, kind: ['command', 'refusal'] });
      expect(JSON.stringify(result.content)).toMatch(/2 entries: command 2\. From \S+ to \S+\./);
      expect(structured(result).entries).toMatchObject([
        { kind: 'command', device_id: id, action: 'turn_on' },
        { kind: 'command', device_id: id, action: 'turn_off' },
      ]);
      for (const place of [{ home_id: mine.homeId }, { home_id: mine.homeId, room_id: mine.roomId }]) {
        const { entries, next_cursor } = await call('get_timeline', { ...place, limit: 1 });
        expect([entries.length, entries[0].device_id, typeof next_cursor]).toEqual([1, id, 'string']);
      }
      const ofNothing = await callTool(client, 'get_timeline', {});
      expect(ofNothing._meta?.['twinkeep/refusal']).toMatchObject({ code: 'VALIDATION_FAILED' });
      expect(await refused('get_timeline', { device_id: id, home_id: mine.homeId })).toBe('VALIDATION_FAILED');
      expect(await refused('get_timeline', { device_id: id, room_id: mine.roomId })).toBe('VALIDATION_FAILED');
      expect(await refused('get_timeline', { device_id: id, limit: 51 })).toBe('VALIDATION_FAILED');
      expect(await refused('get_timeline', { device_id: id, id: v7() })).toBe('VALIDATION_FAILED');
    });

    it('refuse unknown arguments by the names of the tool', async () => {
      const missing = await callTool(client, 'get_device_state', {});
      expect(missing._meta?.['twinkeep/refusal']).toMatchObject({ errors: [{ path: 'device_id' }] });
      const stray = await callTool(client, 'get_device_state', { device_id: v7(), id: v7() });
      expect(stray._meta?.['twinkeep/refusal']).toMatchObject({
        ...{ code: 'VALIDATION_FAILED', errors: [{ path: 'id', message: 'unknown field' }] },
      });
      const id = await light();
      expect(await refused('get_device_capability_schema', { device_id: id })).toBe('VALIDATION_FAILED');
      expect(await refused('get_device_capability_schema', { device_id: id, action: 'sing' })).toBe(
        'ACTION_NOT_IN_MANIFEST',
      );
    });
  });

  describe('that command', () => {
    it('send to a device, and return the outcome', async () => {
      const id = await light();
      const sent = await call('execute_proto_command', {
        ...{ target_type: 'device', target_id: id, action: 'set_brightness', params: { level: 40 } },
      });
      expect(sent).toEqual({ success: true, command_id: expect.any(String), message_id: expect.any(String) });
      await mine.acknowledge(id, sent.command_id, 'succeeded');
      const { command } = await call('get_command_status', { command_id: sent.command_id });
      expect(command.status).toBe('succeeded');
      expect({ command }).toEqual(await byRest(`/commands/${sent.command_id}`));
      expect(await call('get_state_verification', { command_id: sent.command_id })).toEqual({
        ...{ command_id: sent.command_id, verification: command.verification },
      });
      const { commands } = await call('get_device_command_history', { device_id: id, limit: 1 });
      expect(commands[0]).toMatchObject({ id: sent.command_id, action: 'set_brightness' });
    });

    it('send to a room and to a group', async () => {
      const room = (await mine.call('POST', `/homes/${mine.homeId}/rooms`, { name: 'Attic' })).body.id;
      const ids = [await light({ room_id: room }), await light({ room_id: room })];
      const { slug } = (await mine.call('POST', '/groups', { name: 'Attic lights', device_ids: ids })).body;
      for (const [target_type, target_id] of [
        ['room', room],
        ['group', slug],
      ]) {
        const { results } = await call('execute_proto_command', { target_type, target_id, action: 'turn_on' });
        expect(results.map((one: { device_id: string }) => one.device_id).sort()).toEqual([...ids].sort());
        expect(results.every((one: { status: string }) => one.status === 'dispatched')).toBe(true);
      }
    });

    it('answer a critical action with its token and preview, and send it after the confirmation', async () => {
      const id = await light({ device_type: 'smart_lock' });
      const requested = { target_type: 'device', target_id: id, action: 'unlock' };
      const result = await callTool(client, 'execute_proto_command', requested);
      expect(result.isError).toBeUndefined();
      const dryRun = structured(result);
      expect(dryRun).toMatchObject({ status: 'dry_run_required', code: 'DRY_RUN_REQUIRED' });
      expect(dryRun.preview.expected).not.toBeNull();
      expect(await refused('confirm_proto_command', { dry_run_token: dryRun.dry_run_token }, foreign)).toBe(
        'CONFIRMATION_FAILED',
      );
      expect(await refused('confirm_proto_command', { dry_run_token: dryRun.dry_run_token, device_id: v7() })).toBe(
        'NOT_FOUND',
      );
      const confirmed = await call('confirm_proto_command', { dry_run_token: dryRun.dry_run_token });
      expect(confirmed.command_id).toBe(dryRun.command_id);
      expect(await refused('confirm_proto_command', { dry_run_token: dryRun.dry_run_token })).toBe(
        'CONFIRMATION_FAILED',
      );

      const again = await call('execute_proto_command', requested);
      const named = { dry_run_token: again.dry_run_token, device_id: id };
      expect((await call('confirm_proto_command', named)).command_id).toBe(again.command_id);
      expect(await refused('confirm_proto_command', { dry_run_token: v4() })).toBe('CONFIRMATION_FAILED');
      expect(await refused('confirm_proto_command', {})).toBe('VALIDATION_FAILED');
    });

    it('preview an action on request', async () => {
      const id = await light();
      const dryRun = await call('execute_proto_command', {
        ...{ target_type: 'device', target_id: id, action: 'turn_on', dry_run: true },
      });
      expect(dryRun).toMatchObject({ status: 'dry_run_required', command_id: expect.any(String) });
      expect(dryRun.code).toBeUndefined();
    });

    it('refuse what the gateway refuses, and invalid targets', async () => {
      const id = await light();
      const on = (more: object) => refused('execute_proto_command', { target_type: 'device', target_id: id, ...more });
      expect(await on({ action: 'sing' })).toBe('ACTION_NOT_IN_MANIFEST');
      expect(await on({ action: 'set_brightness', params: { level: 'much' } })).toBe('PARAMS_INVALID');
      expect(await on({ action: 'rotate_key' })).toBe('RESTRICTED_ACTION');
      expect(await on({ action: 'turn_on', target_type: 'house' })).toBe('VALIDATION_FAILED');
      expect(await on({ action: 'turn_on', target_type: 'toString' })).toBe('VALIDATION_FAILED');
      expect(await on({ action: 'turn_on', ttl_s: 5 })).toBe('VALIDATION_FAILED');
      expect(await on({})).toBe('VALIDATION_FAILED');
      expect(await on({ action: 'turn_on', target_id: v7() })).toBe('NOT_FOUND');
      expect(await on({ action: 'turn_on', target_type: 'room' })).toBe('NOT_FOUND');
      expect(await on({ action: 'turn_on', target_type: 'group', target_id: 'no-such' })).toBe('NOT_FOUND');
      expect(await refused('execute_proto_command', { action: 'turn_on' }, asViewer)).toBe('FORBIDDEN_ROLE');
      const { device_id } = await mine.register({ device_type: 'curiosity' });
      expect(await on({ action: 'turn_on', target_id: device_id })).toBe('MANIFEST_NOT_FOUND');
    });
  });

  describe('that change records', () => {
    it('register a device without ever showing a secret', async () => {
      const made = await call('provision_device', { device_type: 'smart_light', home_id: mine.homeId, name: 'New' });
      expect(made).toMatchObject({ status: 'registered', device_secret: null, initial_sequence: 1 });
      expect(made.next_step).toContain(`POST /v1/device/${made.device_id}/rotate-secret`);
      expect((await byRest(`/devices/${made.device_id}`)).device.name).toBe('New');
      const { status, body } = await mine.call('POST', `/device/${made.device_id}/rotate-secret`, {});
      expect([status, body.new_secret]).toEqual([200, expect.stringMatching(/^[\w-]{43}$/)]);

      const public_key = '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo';
      const ready = { device_type: 'smart_light', home_id: mine.homeId, signing_alg: 'ed25519', public_key };
      expect(await call('provision_device', ready)).toMatchObject({
        device_secret: null,
        signing_alg: 'ed25519',
        next_step: null,
      });
      expect(await refused('provision_device', { ...ready, home_id: other.homeId })).toBe('NOT_FOUND');
      expect(await refused('provision_device', { home_id: mine.homeId })).toBe('VALIDATION_FAILED');
    });

    it('revoke a device, also repeatedly', async () => {
      const id = await light();
      expect(await refused('decommission_device', { device_id: id }, foreign)).toBe('NOT_FOUND');
      for (const _ of [1, 2]) {
        expect(await call('decommission_device', { device_id: id, reason: 'Lost' })).toEqual({
          ...{ device_id: id, status: 'revoked' },
        });
      }
      const on = { target_type: 'device', target_id: id, action: 'turn_on' };
      expect(await refused('execute_proto_command', on)).toBe('DEVICE_REVOKED');
    });

    it('create homes and groups, and put devices into groups', async () => {
      const id = await light();
      const home = await call('setup_home', { home_name: 'Cabin', timezone: 'Europe/Oslo' });
      expect((await byRest('/homes')).homes[0]).toMatchObject({ id: home.id, timezone: 'Europe/Oslo' });
      expect(await refused('setup_home', { home_name: 'Cabin', timezone: 'Nowhere' })).toBe('VALIDATION_FAILED');
      const { slug } = await call('create_device_group', { name: 'Evening' });
      for (const _ of [1, 2]) {
        expect(await call('add_devices_to_group', { slug, device_ids: [id] })).toEqual({
          ...{ status: 'joined', slug, device_ids: [id] },
        });
      }
      expect(await refused('create_device_group', { name: 'Evening', device_ids: [v7()] })).toBe('NOT_FOUND');
      expect(await refused('add_devices_to_group', { slug: 'no-such', device_ids: [id] })).toBe('NOT_FOUND');
      expect(await refused('add_devices_to_group', { slug, device_id: id })).toBe('VALIDATION_FAILED');
      expect(await refused('add_devices_to_group', { slug, device_ids: [id] }, foreign)).toBe('NOT_FOUND');
    });

    it('write memories, which are then found', async () => {
      const given = { kind: 'preference', subject: `hall ${transport}`, content: 'Warm light', tags: ['light'] };
      const { memory } = await call('write_agent_memory', given);
      expect(memory).toMatchObject({ ...given, source: `user:${mine.userId}` });
      expect(await call('get_agent_memories', { subject: given.subject })).toEqual({
        ...{ memories: [memory], count: 1, next_cursor: null },
      });
      expect((await call('get_agent_memories', { q: 'warm -light' })).memories).toEqual([]);
      expect(structured(await callTool(foreign, 'get_agent_memories')).memories).toEqual([]);
      expect(await refused('write_agent_memory', { kind: 'order', content: 'x' })).toBe('VALIDATION_FAILED');
      expect(await refused('get_agent_memories', { kind: 'order' })).toBe('VALIDATION_FAILED');
    });

    it('are stopped by a flag while reading tools continue', async () => {
      await service.flags.set('maintenance_mode', true);
      try {
        expect(await refused('setup_home', { home_name: 'Cabin' })).toBe('MAINTENANCE');
        expect((await call('list_homes')).homes.length).toBeGreaterThan(0);
      } finally {
        await service.flags.set('maintenance_mode', false);
      }
    });
  });

  it('a newer firmware is offered for the version that the device last reported', async () => {
    const id = await light({ device_type: 'lamp_x' });
    const release = async (version: string) => {
      const url = 'https://example.com/firmware.bin';
      const body = { device_type: 'lamp_x', version, url, checksum: 'ab'.repeat(32) };
      const { id: made } = (await mine.call('POST', '/firmware/release', body)).body;
      await mine.call('POST', `/firmware/${made}/release`, {});
    };
    const version = transport === 'HTTP+SSE' ? '3.0.0' : '2.0.0';
    await release(version);
    expect(await call('check_firmware_update', { device_id: id })).toMatchObject({
      ...{ update_available: true, target_version: version },
    });
    await mine.send(id, { type: 'hello.received', firmware: version });
    expect(await call('check_firmware_update', { device_id: id })).toMatchObject({ update_available: false });
    expect(await refused('check_firmware_update', { device_type: 'lamp_x', current_version: '1.0.0' })).toBe(
      'VALIDATION_FAILED',
    );
  });

  describe('that run plans', () => {
    const step = (id: string, device_id: string, more: object = {}) => ({ id, device_id, action: 'turn_on', ...more });

    it('return a short plan when it has ended', async () => {
      const id = await light();
      const running = call('execute_plan', { name: 'Light', steps: [step('on', id)] });
      const command = await eventually(async () => (await byRest(`/device/${id}/commands`)).commands[0]);
      await mine.report(id, { on: true });
      await mine.acknowledge(id, command.id, 'succeeded');
      const { plan } = await running;
      expect(plan).toMatchObject({ name: 'Light', status: 'succeeded', steps: [{ id: 'on', command_id: command.id }] });
      expect(await call('get_plan_status', { plan_id: plan.id })).toEqual({ plan });
    });

    it('run a plan dry', async () => {
      const id = await light();
      const lock = await light({ device_type: 'smart_lock' });
      const steps = [step('on', id), step('open', lock, { action: 'unlock' }), step('no', id, { action: 'sing' })];
      const { steps: tried } = await call('execute_plan', { steps, dry_run: true });
      expect(tried.map(({ verdict }: { verdict: string }) => verdict)).toEqual([
        ...['allowed', 'dry_run_required', 'ACTION_NOT_IN_MANIFEST'],
      ]);
    });

    it('return at once if a confirmation is pending', async () => {
      const lock = await light({ device_type: 'smart_lock' });
      const { plan } = await call('execute_plan', { steps: [step('open', lock, { action: 'unlock' })] });
      expect(plan.status).toBe('awaiting_confirmation');
    });

    it('refuse invalid plans', async () => {
      const id = await light();
      expect(await refused('execute_plan', { steps: [] })).toBe('VALIDATION_FAILED');
      expect(await refused('execute_plan', { steps: [step('a', id, { depends_on: ['a'] })] })).toBe(
        'VALIDATION_FAILED',
      );
      expect(await refused('execute_plan', { steps: [step('a', v7())] })).toBe('NOT_FOUND');
      expect(await refused('execute_plan', { steps: [step('a', id)] }, asViewer)).toBe('FORBIDDEN_ROLE');
      expect(await refused('get_plan_status', { plan_id: 'no' })).toBe('NOT_FOUND');
    });
  });
});
