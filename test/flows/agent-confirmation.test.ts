import { randomUUID } from 'node:crypto';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createApiKey, inviteMember } from '../support/access-fixture.ts';
import { callTool, codeOf, mcpClient, structured } from '../support/mcp.ts';
import { RecordingDevices, waitForPlan } from '../support/recording-devices.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';

// `agent_confirm_by`: unless a tenant decides otherwise, a person confirms what an agent takes part in, although
// `confirm_by` is `requester`.

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let home: RecordingDevices;
let agents: Client[];
beforeAll(async () => {
  at = await startService();
});
beforeEach(async () => {
  owner = await at.owner();
  home = new RecordingDevices();
  await home.addDoorLock(owner, 'Front door');
  agents = [];
});
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()));
  await home.close();
});
afterAll(() => at.stop());

const door = () => home.ids.get('Front door') as string;
const unlock = () => ({ target_type: 'device', target_id: door(), action: 'unlock' });
async function agentWith(credential: string, question = false): Promise<Client> {
  const agent = await mcpClient(at.url, credential, question ? { capabilities: { elicitation: {} } } : {});
  agents.push(agent);
  return agent;
}
const refusal = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code];
const FAILED = [403, 'CONFIRMATION_FAILED'];
const approve = (client: ApiClient, id: string) => client.post(`/v1/confirmations/${id}/approve`, {});
const confirm = (client: ApiClient, dry_run_token: string) =>
  client.post(`/v1/device/${door()}/command/confirm`, { dry_run_token });
/** Sets a policy that is looser in something, which a person has to confirm. */
async function loosen(policy: object) {
  const requested = await owner.patch('/v1/tenant/policy', policy);
  expect(refusal(requested)).toEqual([409, 'DRY_RUN_REQUIRED']);
  return (await owner.post(`/v1/change-requests/${requested.body.change_id}/approve`, {})).body.result.policy;
}
const statusOf = async (id: string) => (await owner.get(`/v1/commands/${id}`)).body.command.status;

it('a tenant that has chosen nothing has `person` for agents, and only a person changes it', async () => {
  expect((await owner.get('/v1/tenant/policy')).body.policy).toEqual({
    ...{ confirm_by: 'requester', agent_confirm_by: 'person', confirm_ttl_s: 300 },
  });
  const agent = at.api((await createApiKey(owner)).key);
  const looser = { agent_confirm_by: 'requester' };
  expect(refusal(await agent.patch('/v1/tenant/policy', looser))).toEqual([403, 'FORBIDDEN']);
  expect(await loosen(looser)).toEqual({
    ...{ confirm_by: 'requester', agent_confirm_by: 'requester', confirm_ttl_s: 300 },
  });
  const unknown = await owner.patch('/v1/tenant/policy', { agent_confirm_by: 'nobody' });
  expect(refusal(unknown)).toEqual([400, 'VALIDATION_FAILED']);
});

describe('a critical command that an agent requests at /mcp', () => {
  it('is confirmed by a person, not by the agent over any wire', async () => {
    const { key } = await createApiKey(owner);
    const agent = await agentWith(key, true);
    let questions = 0;
    agent.setRequestHandler(ElicitRequestSchema, () => {
      questions += 1;
      return { action: 'accept', content: { confirm: true } };
    });
    const dryRun = structured(await callTool(agent, 'execute_proto_command', unlock()));
    expect([dryRun.status, questions]).toEqual(['dry_run_required', 0]);
    const { dry_run_token, command_id } = dryRun;
    expect(codeOf(await callTool(agent, 'confirm_proto_command', { dry_run_token }))).toBe('CONFIRMATION_FAILED');
    const other = (await createApiKey(owner)).key;
    for (const program of [at.api(key), at.api(other)]) {
      expect(refusal(await confirm(program, dry_run_token))).toEqual(FAILED);
      expect(refusal(await approve(program, command_id))).toEqual(FAILED);
    }
    expect(await statusOf(command_id)).toBe('awaiting_confirmation');
    expect((await approve(owner, command_id)).status).toBe(202);
    await expect.poll(() => home.actions).toEqual(['Front door unlock']);
  });

  it('is confirmed by a person with the token of the dry run', async () => {
    const agent = await agentWith((await createApiKey(owner)).key);
    const { dry_run_token } = structured(await callTool(agent, 'execute_proto_command', unlock()));
    expect((await confirm(owner, dry_run_token)).status).toBe(202);
  });

  it('is confirmed by the agent where the tenant has chosen that, but never against `confirm_by`', async () => {
    await loosen({ agent_confirm_by: 'requester' });
    const agent = await agentWith((await createApiKey(owner)).key);
    const first = structured(await callTool(agent, 'execute_proto_command', unlock()));
    const confirmed = await callTool(agent, 'confirm_proto_command', { dry_run_token: first.dry_run_token });
    expect(codeOf(confirmed)).toBeNull();
    await owner.patch('/v1/tenant/policy', { confirm_by: 'person' });
    const second = structured(await callTool(agent, 'execute_proto_command', unlock()));
    const { dry_run_token } = second;
    expect(codeOf(await callTool(agent, 'confirm_proto_command', { dry_run_token }))).toBe('CONFIRMATION_FAILED');
    // What is stricter applies to what waits already, and what is looser does not.
    await loosen({ confirm_by: 'requester', agent_confirm_by: 'another_principal' });
    expect(refusal(await approve(owner, second.command_id))).toEqual(FAILED);
    const member = await inviteMember(at, owner, 'user');
    expect((await approve(member, second.command_id)).status).toBe(202);
  });

  it('differs from a dry run of a normal action, which the agent may confirm', async () => {
    const agent = await agentWith((await createApiKey(owner)).key);
    const lock = { ...unlock(), action: 'lock', dry_run: true };
    const { dry_run_token } = structured(await callTool(agent, 'execute_proto_command', lock));
    expect(codeOf(await callTool(agent, 'confirm_proto_command', { dry_run_token }))).toBeNull();
  });

  it('as a step of a plan waits for a person', async () => {
    const { key } = await createApiKey(owner);
    const agent = await agentWith(key);
    const steps = [{ id: 'door', device_id: door(), action: 'unlock' }];
    const { plan } = structured(await callTool(agent, 'execute_plan', { steps }));
    const waiting = await waitForPlan(owner, plan.id, 'awaiting_confirmation');
    const { command_id } = waiting.steps[0];
    expect(refusal(await approve(at.api(key), command_id))).toEqual(FAILED);
    expect((await approve(owner, command_id)).status).toBe(202);
    await waitForPlan(owner, plan.id, 'succeeded');
  });
});

describe('a credential that was presented at /mcp', () => {
  it('is an agent on every wire: an API key', async () => {
    const { key } = await createApiKey(owner);
    const program = at.api(key);
    const before = (await program.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
    await agentWith(key);
    const after = (await program.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
    for (const { dry_run_token, command_id } of [before, after]) {
      expect(refusal(await confirm(program, dry_run_token))).toEqual(FAILED);
      expect(refusal(await approve(program, command_id))).toEqual(FAILED);
      // Nor does another key of the user confirm what an agent requested.
      const other = at.api((await createApiKey(owner)).key);
      expect(refusal(await confirm(other, dry_run_token))).toEqual(FAILED);
    }
  });

  it('gets the reason where it cannot confirm: a token', async () => {
    const { dry_run_token } = (await owner.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
    await agentWith(owner.token);
    expect((await confirm(owner, dry_run_token)).body.detail).toBe(
      'The policy for agents requires confirmation by a person. ' +
        'This token counts as an agent’s: it or its client was used at /mcp, or a program requested it for itself.',
    );
  });

  it('is an agent on every wire after its rotation: an API key', async () => {
    const { key, prefix } = await createApiKey(owner);
    const agent = await agentWith(key);
    const { dry_run_token, command_id } = structured(await callTool(agent, 'execute_proto_command', unlock()));
    let rotated = (await owner.post('/v1/auth/api-keys/rotate', { prefix })).body;
    rotated = (await owner.post('/v1/auth/api-keys/rotate', { prefix: rotated.prefix })).body;
    const program = at.api(rotated.key);
    expect(refusal(await confirm(program, dry_run_token))).toEqual(FAILED);
    expect(refusal(await approve(program, command_id))).toEqual(FAILED);
    const own = (await program.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
    expect(refusal(await confirm(program, own.dry_run_token))).toEqual(FAILED);
  });

  it.each(['old', 'new'] as const)(
    'is an agent with both keys of a rotation: the %s key at /mcp',
    async (presented) => {
      const { key, prefix } = await createApiKey(owner);
      const rotated = (await owner.post('/v1/auth/api-keys/rotate', { prefix, grace_s: 3600 })).body;
      const keys = { old: key, new: rotated.key as string };
      await agentWith(keys[presented]);
      const program = at.api(keys[presented === 'old' ? 'new' : 'old']);
      const { body } = await program.post(`/v1/device/${door()}/command`, { action: 'unlock' });
      expect(refusal(await confirm(program, body.dry_run_token))).toEqual(FAILED);
    },
  );

  it('is an agent on every wire: a token', async () => {
    const sub = randomUUID();
    const member = await inviteMember(at, owner, 'user', sub);
    const token = await at.token(sub, { email: member.email });
    await agentWith(token);
    const program = at.api(token);
    const requested = await program.post(`/v1/device/${door()}/command`, { action: 'unlock' });
    expect(refusal(await confirm(program, requested.body.dry_run_token))).toEqual(FAILED);
    expect(refusal(await approve(program, requested.body.command_id))).toEqual(FAILED);
    expect((await approve(member, requested.body.command_id)).status).toBe(202);
  });

  it('does not confirm what a person has requested', async () => {
    const { key } = await createApiKey(owner);
    await agentWith(key);
    const { command_id } = (await owner.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
    expect(refusal(await approve(at.api(key), command_id))).toEqual(FAILED);
  });
});

describe('a critical change that an agent’s key requests over REST', () => {
  it('waits for a person, whichever key tries to confirm it', async () => {
    const { key } = await createApiKey(owner);
    await agentWith(key);
    const agent = at.api(key);
    const requested = await agent.post(`/v1/device/${door()}/rotate-secret`, {});
    expect(refusal(requested)).toEqual([409, 'DRY_RUN_REQUIRED']);
    const { change_id, dry_run_token } = requested.body;
    for (const program of [agent, at.api((await createApiKey(owner)).key)]) {
      expect(refusal(await program.post(`/v1/change-requests/${change_id}/approve`, {}))).toEqual(FAILED);
      const path = `/v1/change-requests/${change_id}/confirm`;
      expect(refusal(await program.post(path, { dry_run_token }))).toEqual(FAILED);
    }
    const approved = await owner.post(`/v1/change-requests/${change_id}/approve`, {});
    expect([approved.status, typeof approved.body.result.new_secret]).toEqual([200, 'string']);
  });
});

it('an API key that was never presented at /mcp confirms under `confirm_by` alone', async () => {
  const program = at.api((await createApiKey(owner)).key);
  const { dry_run_token } = (await program.post(`/v1/device/${door()}/command`, { action: 'unlock' })).body;
  expect((await confirm(program, dry_run_token)).status).toBe(202);
});
