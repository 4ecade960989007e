import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { queryGraphql } from '../support/graphql.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import { startTestSockets, type TestSockets } from '../support/state-sockets.ts';

/** Close code of a subscription that is not valid. */
const INVALID_QUERY = 4400;

let service: HttpService;
let sockets: TestSockets;
let token: string;
beforeAll(async () => {
  service = await startHttpService();
  sockets = await startTestSockets(service);
  ({ token } = await service.owner());
});
afterAll(async () => {
  await sockets.close();
  await service.close();
});

/** Whether each edge accepts the text as an id: as a filter over REST and GraphQL, as a subscription over WebSocket. */
async function acceptedBy(id: string) {
  const text = encodeURIComponent(id);
  const rest = await service.call('GET', `/v1/devices?home_id=${text}`, { token });
  const query = 'query ($id: ID!) { devices(homeId: $id) { nodes { id } } }';
  const graphql = await queryGraphql(service, query, { token, variables: { id } });
  const client = await sockets.connect(token, `device_id=${text}`);
  client.socket.send('ping');
  let code: number | null = null;
  void client.closed.then((closed) => (code = closed.code));
  await eventually(() => code !== null || client.texts.includes('pong'));
  client.socket.close();
  return { rest: rest.status === 200, graphql: graphql.body.errors === undefined, websocket: code !== INVALID_QUERY };
}

describe('every edge', () => {
  it.each([
    ['version 7', '01920000-0000-7000-8000-000000000001'],
    ['version 4', '3d594650-6f4b-4c9a-9d5e-0d7a5b1c2e3f'],
    ['no version', '00000000-0000-0000-0000-000000000001'],
    ['upper case', 'ABCDEF00-0000-7000-8000-00000000000F'],
  ])('accepts an id with %s', async (_, id) => {
    expect(await acceptedBy(id)).toEqual({ rest: true, graphql: true, websocket: true });
  });

  it.each([
    ['no hyphens', '01920000000070008000000000000001'],
    ['braces', '{01920000-0000-7000-8000-000000000001}'],
    ['a digit that is not hexadecimal', '01920000-0000-7000-8000-00000000000g'],
  ])('refuses an id with %s', async (_, id) => {
    expect(await acceptedBy(id)).toEqual({ rest: false, graphql: false, websocket: false });
  });
});
