import { beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import { callTool, mcpClient, structured } from '../../../support/mcp.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

// A confirmation covers the effect that its preview shows.

withTwoTenants();

let valve: string;
beforeEach(async () => {
  valve = (await mine.register({ device_type: 'valve' })).device_id;
  await mine.connect(valve);
  await mine.report(valve, { flow: 0 });
});

const setFlow = { action: 'set_flow', params: { percent: 10 } };
const request = async () => (await mine.call('POST', `/device/${valve}/command`, setFlow)).body;
const confirm = (dry_run_token: string, more: object = {}, sent: object = {}) =>
  mine.call('POST', `/device/${valve}/command/confirm`, { dry_run_token, ...more }, sent);
const approve = (id: string, body: object = {}) => mine.call('POST', `/confirmations/${id}/approve`, body);
const listed = async () => (await mine.call('GET', '/confirmations')).body.confirmations;
const statusOf = async (id: string) => (await mine.call('GET', `/commands/${id}`)).body.command.status;
const changed = { flow: { from: 80, to: 10 } };

describe('a confirmation after the device has reported another state', () => {
  it('is answered with 409 and the new preview, and the command still waits', async () => {
    const { dry_run_token, command_id, expires_at } = await request();
    await mine.report(valve, { flow: 80, leak: true });
    for (const { status, body } of [await confirm(dry_run_token), await approve(command_id)]) {
      expect([status, body]).toEqual([
        409,
        {
          status: 'dry_run_required',
          code: 'DRY_RUN_REQUIRED',
          reason: expect.stringContaining('preview_hash'),
          expires_at,
          command_id,
          preview: { current: { flow: 80 }, expected: { flow: 10 }, changes: changed, device: expect.any(Object) },
          preview_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
          request_id: expect.any(String),
        },
      ]);
    }
    expect(await statusOf(command_id)).toBe('awaiting_confirmation');
  });

  it('is accepted with the hash of the new preview, until that changes too', async () => {
    const { dry_run_token, command_id } = await request();
    await mine.report(valve, { flow: 80 });
    const { preview_hash } = (await confirm(dry_run_token)).body;
    await mine.report(valve, { flow: 90 });
    const again = await confirm(dry_run_token, { preview_hash });
    expect([again.status, again.body.preview.changes]).toEqual([409, { flow: { from: 90, to: 10 } }]);
    const sent = await confirm(dry_run_token, { preview_hash: again.body.preview_hash });
    expect([sent.status, sent.body.command_id]).toEqual([202, command_id]);
  });

  it('shows and approves the new preview in the inbox', async () => {
    const { command_id } = await request();
    const [before] = await listed();
    await mine.report(valve, { flow: 80 });
    const [entry] = await listed();
    expect(entry.preview.changes).toEqual(changed);
    expect((await approve(command_id, { preview_hash: before.preview_hash })).status).toBe(409);
    expect((await approve(command_id, { preview_hash: entry.preview_hash })).status).toBe(202);
  });

  it('is accepted if the device reported what the preview does not name, or the same again', async () => {
    const { dry_run_token } = await request();
    await mine.report(valve, { flow: 80, leak: true });
    await mine.report(valve, { flow: 0 });
    expect((await confirm(dry_run_token)).status).toBe(202);
  });

  it('is answered again for a repeated idempotency key', async () => {
    const { dry_run_token } = await request();
    await mine.report(valve, { flow: 80 });
    const sent = { headers: { 'idempotency-key': 'once' } };
    const first = await confirm(dry_run_token, {}, sent);
    const second = await confirm(dry_run_token, {}, sent);
    expect([first.status, second.status, second.body.preview_hash]).toEqual([409, 409, first.body.preview_hash]);
  });

  it('refuses another token or confirmer before it compares, and a hash that is none', async () => {
    const { command_id } = await request();
    await mine.report(valve, { flow: 80 });
    expect((await confirm('6f1c2f7e-4b0a-4d0e-9a53-2f8f0c1d7b11')).body.code).toBe('CONFIRMATION_FAILED');
    await mine.call('PATCH', '/tenant/policy', { confirm_by: 'another_principal' });
    expect((await approve(command_id)).body.code).toBe('CONFIRMATION_FAILED');
    expect((await approve(command_id, { preview_hash: 'new' })).body.code).toBe('VALIDATION_FAILED');
  });

  it('concerns the step of a plan too', async () => {
    const plan = await mine.call('POST', '/plans', { steps: [{ id: 'a', device_id: valve, ...setFlow }] });
    expect(plan.status).toBe(202);
    const entry = await eventually(async () => (await listed())[0]);
    expect(entry.plan_id).toBe(plan.body.plan.id);
    await mine.report(valve, { flow: 80 });
    expect((await approve(entry.command_id)).body.preview.changes).toEqual(changed);
    expect(await statusOf(entry.command_id)).toBe('awaiting_confirmation');
    const [{ preview_hash }] = await listed();
    expect((await approve(entry.command_id, { preview_hash })).status).toBe(202);
  });

  it('is the same in GraphQL', async () => {
    const { dry_run_token, command_id } = await request();
    await mine.report(valve, { flow: 80 });
    const confirmation = async (hash: string) => {
      const text = `mutation {
        confirmCommand(input: { deviceId: "${valve}", dryRunToken: "${dry_run_token}" ${hash} }) {
          __typename ... on PreviewChanged { commandId previewHash preview { current } }
        }
      }`;
      return (await queryGraphql(service, text, { token: mine.tokens.owner })).body.data.confirmCommand;
    };
    const refused = await confirmation('');
    expect(refused).toMatchObject({
      __typename: 'PreviewChanged',
      commandId: command_id,
      preview: { current: { flow: 80 } },
    });
    const sent = await confirmation(`previewHash: "${refused.previewHash}"`);
    expect(sent.__typename).toBe('Dispatched');
  });

  it('is the same for a tool of MCP', async () => {
    await setPolicy(mine, { agent_confirm_by: 'requester' });
    const { dry_run_token, command_id } = await request();
    await mine.report(valve, { flow: 80 });
    const client = await mcpClient(service.url, mine.tokens.owner);
    const answer = await callTool(client, 'confirm_proto_command', { dry_run_token });
    const { preview_hash, preview } = structured(answer);
    expect(preview.changes).toEqual(changed);
    expect(JSON.stringify(answer.content)).toContain('Nothing was sent');
    const sent = structured(await callTool(client, 'confirm_proto_command', { dry_run_token, preview_hash }));
    expect(sent).toMatchObject({ success: true, command_id });
    await client.close();
  });
});
