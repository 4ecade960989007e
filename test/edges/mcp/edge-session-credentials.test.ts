import { expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { slow } from '../../support/slow.ts';
import { begin, listen, mine, open, rpc, sendRequest, service, withMcpServices } from './mcp-requests.ts';

withMcpServices();

it('a session that is used with a token of fewer scopes has no subscriptions that this token could not make', async () => {
  await open({});
  const { device_id } = await mine.register();
  const session = await begin();
  const device = `twin://devices/${device_id}`;
  const homeUri = `twin://homes/${mine.homeId}`;
  for (const uri of [device, homeUri])
    expect((await sendRequest(rpc('resources/subscribe', { uri }), session)).body.result).toEqual({});
  const user = await service.services.users.get(mine.userId);
  const narrow = await service.token(user?.sub ?? '', { scope: 'read:memory' });
  const reader = await service.token(user?.sub ?? '', { scope: 'read:devices' });
  const own = await begin({ authorization: `Bearer ${reader}` });
  await sendRequest(rpc('resources/subscribe', { uri: device }), own);

  const stream = await listen({ ...session, authorization: `Bearer ${narrow}` });
  const readable = await listen({ ...own, authorization: `Bearer ${reader}` });
  expect([stream.status, readable.status]).toEqual([200, 200]);
  await mine.call('PATCH', `/devices/${device_id}`, { name: 'Reading lamp' });
  await eventually(() => readable.text.includes('notifications/resources/updated'));
  // The service sends all notifications of one change together.
  await service.mcp.close();
  await eventually(() => stream.ended);
  expect(stream.text).toContain('shutting down');
  expect(stream.text).not.toContain('resources/updated');
  expect(readable.text).toContain(device);
});

it(
  'the next use with the first token does not bring the subscriptions back, and it can subscribe again',
  slow,
  async () => {
    await open({});
    const { device_id } = await mine.register();
    const session = await begin();
    const subscribe = () => sendRequest(rpc('resources/subscribe', { uri: `twin://devices/${device_id}` }), session);
    await subscribe();
    const user = await service.services.users.get(mine.userId);
    const narrow = await service.token(user?.sub ?? '', { scope: 'read:memory' });
    await sendRequest(rpc('ping'), { ...session, authorization: `Bearer ${narrow}` });
    expect(service.mcp.sizes()).toMatchObject({ mcp_followed_resources: 0, mcp_followers: 0 });
    await subscribe();
    const stream = await listen(session);
    await mine.call('PATCH', `/devices/${device_id}`, { name: 'Reading lamp' });
    await eventually(() => stream.text.includes('notifications/resources/updated'));
  },
);
