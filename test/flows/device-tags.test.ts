import { afterAll, beforeAll, expect, it } from 'vitest';
import { register } from '../support/device.ts';
import { callTool, mcpClient, structured } from '../support/mcp.ts';
import { startService, type TestService } from '../support/service.ts';

// Tags of devices over GraphQL and MCP; over REST they are in test/edges/rest/routes/device-tags.test.ts.

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let lamp = '';
let porch = '';

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  lamp = (await register(owner, { tags: ['floor:1', 'evening'] })).device_id;
  porch = (await register(owner, { tags: ['outdoor', 'evening'] })).device_id;
});
afterAll(() => at?.stop());

const graphql = async (query: string) => {
  const { body } = await owner.post('/graphql', { query });
  expect(body.errors).toBeUndefined();
  return body.data;
};

it('GraphQL shows, filters, counts and changes tags, and commands devices by them', async () => {
  const { devices } = await graphql('{ devices(tag: ["evening", "outdoor"]) { nodes { id tags } } }');
  expect(devices.nodes).toEqual([{ id: porch, tags: ['evening', 'outdoor'] }]);
  expect((await graphql('{ devices(q: "FLOOR:") { nodes { id } } }')).devices.nodes).toEqual([{ id: lamp }]);
  expect((await graphql('{ tags(first: 1) { nodes { tag devices } pageInfo { hasNextPage } } }')).tags).toEqual({
    ...{ nodes: [{ tag: 'evening', devices: 2 }], pageInfo: { hasNextPage: true } },
  });
  const { patchDevice } = await graphql(`mutation {
    patchDevice(input: { id: "${lamp}", addTags: ["desk"], removeTags: ["floor:1"] }) {
      ... on PatchDeviceResult { device { tags } } ... on Refused { code } } }`);
  expect(patchDevice.device.tags).toEqual(['desk', 'evening']);
  const { commandDevices } = await graphql(`mutation {
    commandDevices(input: { tags: ["desk"], action: "turn_on" }) {
      ... on TargetResults { results { deviceId success } } ... on Refused { code } } }`);
  expect(commandDevices.results).toEqual([{ deviceId: lamp, success: true }]);
});

it('MCP registers devices with tags, and shows and filters them', async () => {
  const client = await mcpClient(at.url, owner.token);
  const tags = ['agent', 'evening'];
  const made = await callTool(client, 'provision_device', { device_type: 'smart_light', home_id: owner.homeId, tags });
  const { device_id } = structured(made);
  const found = structured(await callTool(client, 'list_devices', { tag: ['evening', 'agent'] }));
  expect(found.devices).toMatchObject([{ id: device_id, tags }]);
  expect(structured(await callTool(client, 'list_devices', { q: 'agent' })).devices).toMatchObject([{ id: device_id }]);
  expect(structured(await callTool(client, 'get_device_detail', { device_id })).device.tags).toEqual(tags);
  await client.close();
});
