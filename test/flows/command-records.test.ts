import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { runCliInProcess } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { callTool, mcpClient, structured } from '../support/mcp.ts';
import { startService, type TestService } from '../support/service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let device: Device;
let id: string;
/** Ends the action that runs. */
let release: () => void = () => {};

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const registered = await register(owner);
  id = registered.device_id;
  device = await connect(registered, {
    state: { on: false },
    commands: {
      async turn_on(_, { progress }) {
        progress(25);
        progress(50);
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        return { state: { on: true } };
      },
      turn_off() {
        throw new Error('the relay is stuck');
      },
    },
  });
});
afterAll(async () => {
  release();
  await device.close();
  await at.stop();
});

const send = async (action: string): Promise<string> =>
  (await owner.post(`/v1/device/${id}/command`, { action })).body.command_id;
const cli = async (...args: string[]) => (await runCliInProcess(args, { url: at.url, token: owner.token })).stdout;

describe('the refusal of a command', () => {
  it('names the command that is stored as rejected, on each wire', async () => {
    const latest = async () => (await owner.get(`/v1/device/${id}/commands?limit=1`)).body.commands[0];
    const byRest = await owner.post(`/v1/device/${id}/command`, { action: 'sing' });
    expect([byRest.status, byRest.body.code]).toEqual([403, 'ACTION_NOT_IN_MANIFEST']);
    expect(await latest()).toMatchObject({ id: byRest.body.command_id, status: 'rejected' });
    const invalid = await owner.post(`/v1/device/${id}/command`, { action: 'set_brightness', params: { level: 400 } });
    expect([invalid.status, invalid.body.errors.length]).toEqual([400, 1]);
    expect((await latest()).id).toBe(invalid.body.command_id);
    const missing = await owner.post(`/v1/device/${owner.homeId}/command`, { action: 'sing' });
    expect(missing.body).not.toHaveProperty('command_id');

    const input = `{ deviceId: "${id}", action: "sing" }`;
    const refusal = '... on Refused { code rejectedCommandId }';
    const mutation = `mutation { commandDevice(input: ${input}) { ${refusal} ... on Dispatched { commandId } } }`;
    const { data } = (await owner.post('/graphql', { query: mutation })).body;
    expect(data.commandDevice).toEqual({ code: 'ACTION_NOT_IN_MANIFEST', rejectedCommandId: (await latest()).id });

    const agent = await mcpClient(at.url, owner.token);
    const refused = await callTool(agent, 'execute_proto_command', {
      ...{ target_type: 'device', target_id: id, action: 'sing' },
    });
    expect(refused._meta).toMatchObject({ 'twinkeep/refusal': { command_id: (await latest()).id } });
    await agent.close();
  });
});

describe('progress, refusals and errors of commands', () => {
  it('are the same on each wire', async () => {
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${owner.token}&events=command`);
    const updates: Record<string, unknown>[] = [];
    socket.on('message', (data) => {
      if (String(data) !== 'pong') updates.push(JSON.parse(String(data)));
    });
    await waitUntilAuthorized(socket);
    const agent = await mcpClient(at.url, owner.token);

    await send('sing');
    const failed = await send('turn_off');
    await waitForCommand(owner, failed, ({ status }) => status === 'failed');
    const running = await send('turn_on');
    const shown = await waitForCommand(owner, running, ({ progress }) => progress === 50);
    expect(shown.status).toBe('in_progress');

    const { commands } = (await owner.get(`/v1/device/${id}/commands`)).body;
    const refusal = { code: 'ACTION_NOT_IN_MANIFEST', detail: "The device does not offer 'sing'." };
    expect(commands.slice(0, 3)).toMatchObject([
      { id: running, progress: 50 },
      { id: failed, status: 'failed', error: 'the relay is stuck' },
      { status: 'rejected', refusal },
    ]);
    const rejected = commands[2].id;

    await eventually(() => updates.some(({ command_id, progress }) => command_id === running && progress === 50));
    const of = (commandId: string) => updates.filter(({ command_id }) => command_id === commandId);
    expect(of(running).flatMap(({ progress }) => progress ?? [])).toEqual([25, 50]);
    expect(of(rejected)).toMatchObject([{ status: 'rejected', code: refusal.code, reason: refusal.detail }]);
    expect(of(failed).every((one) => !('code' in one) && !('progress' in one))).toBe(true);

    const query = `{ command(id: "${running}") { progress }
      commands(deviceId: "${id}", first: 3) { nodes { progress error refusal { code detail } } } }`;
    expect((await owner.post('/graphql', { query })).body.data).toEqual({
      command: { progress: 50 },
      commands: {
        nodes: [
          { progress: 50, error: null, refusal: null },
          { progress: null, error: 'the relay is stuck', refusal: null },
          { progress: null, error: null, refusal },
        ],
      },
    });

    const status = await callTool(agent, 'get_command_status', { command_id: running });
    expect(structured(status)).toMatchObject({ command: { status: 'in_progress', progress: 50 } });
    expect(JSON.stringify(status)).toContain('The command is in_progress, progress 50;');
    expect(JSON.stringify(await callTool(agent, 'get_command_status', { command_id: rejected }))).toContain(
      'The command is rejected by ACTION_NOT_IN_MANIFEST;',
    );

    expect(await cli('commands', 'get', running)).toMatch(/progress\s+50/);
    expect(await cli('commands', 'list', '--status', 'rejected')).toContain(rejected);
    const list = await cli('commands', 'list', id);
    for (const note of ['progress 50', 'the relay is stuck', 'ACTION_NOT_IN_MANIFEST']) expect(list).toContain(note);

    release();
    await waitForCommand(owner, running, ({ status }) => status === 'succeeded');
    await agent.close();
    socket.close();
  });

  it('of a step of a plan are in the plan', async () => {
    const { plan } = (await owner.post('/v1/plans', { steps: [{ id: 'off', device_id: id, action: 'turn_off' }] }))
      .body;
    const ended = await eventually(async () => {
      const { body } = await owner.get(`/v1/plans/${plan.id}`);
      return body.plan.finished_at === null ? null : body.plan;
    });
    expect(ended.steps[0]).toMatchObject({
      status: 'failed',
      error: { code: 'FAILED', detail: 'The device reported a failure: the relay is stuck' },
    });
    expect(await cli('plans', 'show', plan.id)).toContain('FAILED: The device reported a failure: the relay is stuck');
  });
});
