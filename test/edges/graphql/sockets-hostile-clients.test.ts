import { connect, type Socket } from 'node:net';
import { getIntrospectionQuery } from 'graphql';
import { afterEach, expect, it } from 'vitest';
import WebSocket from 'ws';
import { makeLiveEventSource } from '../../../src/edges/graphql/live-event-source.ts';
import type { Update } from '../../../src/edges/shared/live/update.ts';
import { eventually } from '../../support/clock.ts';
import type { HttpService, HttpServiceOptions } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase } from '../../support/test-tenant.ts';

let service: HttpService | null = null;
const clients: WebSocket[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.terminate();
  await service?.close();
  service = null;
});

const open = async (options?: HttpServiceOptions): Promise<HttpService> => {
  service = await startHttpServiceOnDatabase(options);
  return service;
};

async function connected(url: string): Promise<WebSocket> {
  const client = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws');
  clients.push(client);
  client.on('error', () => {});
  await new Promise((resolve) => client.on('open', resolve));
  return client;
}

it('a client that sends requests without reading the answers is disconnected', async () => {
  const { graphql, url } = await open({ graphqlLimits: { maxPendingSends: 20 } });
  const { tokens } = await makeTestTenant(service as HttpService);
  const client = await connected(url);
  const acked = new Promise((resolve) => client.once('message', resolve));
  client.send(JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer ${tokens.owner}` } }));
  await acked;
  (client as unknown as { _socket: Socket })._socket.pause();
  const query = getIntrospectionQuery();
  for (let n = 0; n < 80; n++) client.send(JSON.stringify({ id: `${n}`, type: 'subscribe', payload: { query } }));
  await eventually(() => graphql.connections() === 0);
});

it('a client that sends an invalid frame during shutdown breaks nothing', async () => {
  const { graphql, url } = await open();
  const thrown: unknown[] = [];
  const receive = (error: unknown) => void thrown.push(error);
  process.on('uncaughtException', receive);
  await graphql.close();
  const { hostname, port } = new URL(url);
  const client = connect(Number(port), hostname);
  client.on('error', () => {});
  let sent = '';
  client.on('data', (chunk) => {
    sent += chunk.toString('latin1');
  });
  const closed = new Promise((resolve) => client.on('close', resolve));
  client.write(`GET /graphql HTTP/1.1\r\nHost: x\r\n${UPGRADE}\r\n\r\n`);
  client.write(Buffer.from([0xff, 0xff, 0xff, 0xff]));
  await eventually(() => sent.includes('shutting down'));
  await closed;
  process.off('uncaughtException', receive);
  expect(thrown).toEqual([]);
});

const UPGRADE = [
  ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
  ...['Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Protocol: graphql-transport-ws'],
].join('\r\n');

it('unsubscribing twice does not affect later subscribers', () => {
  let emit: (output: object) => void = () => {};
  const feed = makeLiveEventSource({
    subscribe(_: string, listener: (output: never) => void) {
      emit = listener as never;
      return () => {
        emit = () => {};
      };
    },
  } as never);
  const stop = feed.subscribe('state', 't', () => {});
  stop();
  const received: Update[] = [];
  feed.subscribe('state', 't', (update) => received.push(update));
  stop();
  emit({ type: 'device.state', tenantId: 't', deviceId: 'd', state: {}, stateVersion: 1, at: 0 });
  expect([received.length, feed.subscriberCount('state', 't')]).toEqual([1, 1]);
});
