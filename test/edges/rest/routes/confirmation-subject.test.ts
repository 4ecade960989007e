import { beforeEach, describe, expect, it } from 'vitest';
import { queryGraphql } from '../../../support/graphql.ts';
import type { CallResult } from '../../../support/http-service.ts';
import { callTool, mcpClient, structured } from '../../../support/mcp.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

// A person confirms a named device in its place, and sees the requester with the credential.

withTwoTenants();

let front: string;
let shed: string;
let key: string;
let credential: { kind: string; prefix: string; name: string };
beforeEach(async () => {
  const lock = async (name: string) => (await mine.register({ device_type: 'lock', name })).device_id;
  [front, shed] = [await lock('Front door'), await lock('Shed')];
  const scopes = ['read:devices', 'write:devices', 'read:commands', 'execute:commands'];
  const made = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes })).body;
  key = made.key;
  credential = { kind: 'api_key', prefix: made.prefix, name: 'agent' };
  await setPolicy(mine, { confirm_by: 'person' });
});

const rename = (id: string, name: string) => mine.call('PATCH', `/devices/${id}`, { name }, { token: key });
const swapNames = async () => [await rename(shed, 'Shed (old)'), await rename(front, 'Shed')];
const unlock = async (token = key) =>
  (await mine.call('POST', `/device/${front}/command`, { action: 'unlock' }, { token })).body;
const inbox = async () => (await mine.call('GET', '/confirmations')).body.confirmations;
const approve = (id: string, body: object = {}) => mine.call('POST', `/confirmations/${id}/approve`, body);
const rotate = async () => (await mine.call('POST', `/device/${front}/rotate-secret`, {}, { token: key })).body;
const coded = ({ status, body }: CallResult) => [status, body.code];

describe('the preview of a command', () => {
  it('has the name and the place of the device, and another name is previewed again', async () => {
    const { command_id, preview } = await unlock();
    expect(preview.device).toEqual({ name: 'Front door', home_id: mine.homeId, room_id: null });
    const [shown] = await inbox();
    expect(shown.preview.device.name).toBe('Front door');
    await swapNames();
    for (const preview_hash of [undefined, shown.preview_hash]) {
      const answer = await approve(command_id, preview_hash === undefined ? {} : { preview_hash });
      expect(coded(answer)).toEqual([409, 'DRY_RUN_REQUIRED']);
      expect(answer.body.preview.device.name).toBe('Shed');
    }
    const [again] = await inbox();
    expect(again.preview.device.name).toBe('Shed');
    expect((await approve(command_id, { preview_hash: again.preview_hash })).status).toBe(202);
  });

  it('is made again after the device was moved', async () => {
    const { command_id } = await unlock();
    await mine.call('PATCH', `/devices/${front}`, { room_id: mine.roomId }, { token: key });
    const answer = await approve(command_id);
    expect([answer.status, answer.body.preview.device.room_id]).toEqual([409, mine.roomId]);
  });
});

describe('a change of the keys of a device', () => {
  it('names the device, and another name is previewed again', async () => {
    const { change_id, preview } = await rotate();
    expect(preview.weaker[0]).toContain("'Front door'");
    expect(preview.device).toEqual({ name: 'Front door', home_id: mine.homeId, room_id: null });
    await swapNames();
    const answer = await mine.call('POST', `/change-requests/${change_id}/approve`);
    expect(coded(answer)).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(answer.body.preview.weaker[0]).toContain("'Shed'");
    const applied = await mine.call('POST', `/change-requests/${answer.body.change_id}/approve`);
    expect(applied.status).toBe(200);
  });
});

describe('the credential of a request', () => {
  it('is shown with what waits and with the command', async () => {
    const { command_id } = await unlock();
    expect(await inbox()).toMatchObject([{ requested_by: mine.userId, requested_with: credential }]);
    const { command } = (await mine.call('GET', `/commands/${command_id}`)).body;
    expect(command.requested_with).toEqual(credential);
    const { change_id } = await rotate();
    expect((await mine.call('GET', '/change-requests')).body.changes).toMatchObject([{ requested_with: credential }]);
    const { change } = (await mine.call('GET', `/change-requests/${change_id}`)).body;
    expect(change).toMatchObject({ requested_by: mine.userId, requested_with: credential });
  });

  it('is that of a person, and is not shown for a command that needed no confirmation', async () => {
    await unlock(mine.tokens.owner);
    expect((await inbox())[0].requested_with).toEqual({ kind: 'person' });
    const sent = (await mine.call('POST', `/device/${front}/command`, { action: 'lock' }, { token: key })).body;
    const { command } = (await mine.call('GET', `/commands/${sent.command_id}`)).body;
    expect(command).not.toHaveProperty('requested_with');
  });

  it('is shown in GraphQL and by the tools', async () => {
    const { command_id } = await unlock();
    await rotate();
    const text = `{ confirmations(first: 5) { nodes { requestedWith { kind prefix name } preview { device { name } } } }
      changeRequests(first: 5) { nodes { requestedWith { kind prefix name } } } }`;
    const { data } = (await queryGraphql(service, text, { token: mine.tokens.owner })).body;
    const shown = { kind: 'API_KEY', prefix: credential.prefix, name: 'agent' };
    expect(data).toMatchObject({
      confirmations: { nodes: [{ requestedWith: shown, preview: { device: { name: 'Front door' } } }] },
      changeRequests: { nodes: [{ requestedWith: shown }] },
    });
    const client = await mcpClient(service.url, mine.tokens.owner);
    const status = structured(await callTool(client, 'get_command_status', { command_id }));
    await client.close();
    expect(JSON.stringify(status)).toContain(credential.prefix);
  });

  it('of a token at /mcp is an agent’s', async () => {
    const client = await mcpClient(service.url, mine.tokens.owner);
    const asked = { target_type: 'device', target_id: front, action: 'unlock' };
    await callTool(client, 'execute_proto_command', asked);
    await client.close();
    expect(await inbox()).toMatchObject([{ requested_with: { kind: 'mcp' } }]);
  });
});
