import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { callTool, mcpClient, structured } from '../support/mcp.ts';
import { RecordingDevices } from '../support/recording-devices.ts';
import { runningClock, startService, type TestService } from '../support/service.ts';
import { startTestIssuer, type TestIssuer } from '../support/test-issuer.ts';

// Clients of the identity provider that work for agents: a refreshed token counts as the one that was presented at /mcp.

const AUDIENCE = 'https://twinkeep.example';
let issuer: TestIssuer;
let at: TestService;
let home: RecordingDevices;
let sub: string;
beforeEach(async () => {
  const clock = runningClock();
  issuer = await startTestIssuer(clock, AUDIENCE);
  const env = { OIDC_ISSUER: issuer.url, OIDC_AUDIENCE: AUDIENCE, OIDC_CLIENT_ID: 'console' };
  at = await startService(env, { clock });
  sub = randomUUID();
  home = new RecordingDevices();
  const user = await tokenOf({ azp: 'console' });
  await user.post('/v1/tenant/register', { tenant_name: 'Ada' });
  const { id: homeId } = (await user.post('/v1/homes', { home_name: 'Home', timezone: 'UTC' })).body;
  await home.addDoorLock({ ...user, homeId }, 'Front door');
});
afterEach(async () => {
  await home.close();
  await at.stop();
  await issuer.close();
});

/** Another token of the user. */
const tokenOf = async (claims: Record<string, unknown>) =>
  at.api(await issuer.token({ sub, sid: 'sid-9', jti: randomUUID(), ...claims }));
/** Presents a token at `/mcp`, and requests a critical command there. */
async function requestAtMcp(claims: Record<string, unknown>): Promise<{ dry_run_token: string; command_id: string }> {
  const agent = await mcpClient(at.url, (await tokenOf(claims)).token);
  const target = { target_type: 'device', target_id: home.ids.get('Front door') as string };
  const dryRun = structured(await callTool(agent, 'execute_proto_command', { ...target, action: 'unlock' }));
  await agent.close();
  return dryRun;
}
const confirm = (by: Awaited<ReturnType<typeof tokenOf>>, dry_run_token: string) =>
  by.post(`/v1/device/${home.ids.get('Front door')}/command/confirm`, { dry_run_token });

it.each(['azp', 'client_id', 'cid', 'appid'])(
  'a client in `%s` that was at /mcp does not confirm with another token',
  async (claim) => {
    const agent = { [claim]: 'agent-client' };
    const { dry_run_token, command_id } = await requestAtMcp(agent);
    const refreshed = await tokenOf(agent);
    expect((await confirm(refreshed, dry_run_token)).body.code).toBe('CONFIRMATION_FAILED');
    expect((await refreshed.post(`/v1/confirmations/${command_id}/approve`, {})).body.code).toBe('CONFIRMATION_FAILED');
    expect((await refreshed.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'] })).body.code).toBe('FORBIDDEN');
    expect((await refreshed.patch('/v1/tenant/policy', { confirm_ttl_s: 60 })).body.code).toBe('FORBIDDEN');
    // What is derived from such a token is an agent's as well.
    expect((await refreshed.post('/v1/auth/session', { token: refreshed.token })).body.code).toBe('FORBIDDEN');
    expect((await confirm(await tokenOf({ azp: 'phone' }), dry_run_token)).status).toBe(202);
  },
);

it('the client that signs browsers in stays a person’s, except for the token that was presented', async () => {
  const { dry_run_token } = await requestAtMcp({ azp: 'console' });
  expect((await confirm(await tokenOf({ azp: 'console' }), dry_run_token)).status).toBe(202);
});

it('a client is an agent’s for the users whose tokens it presented, and for no other user', async () => {
  await requestAtMcp({ azp: 'agent-client' });
  sub = randomUUID();
  const other = await tokenOf({ azp: 'agent-client' });
  await other.post('/v1/tenant/register', { tenant_name: 'Eve' });
  expect((await other.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'] })).status).toBe(201);
});
