import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { MqttEdge } from '../../../src/edges/mqtt/edge.ts';
import { credentials, Device, eventually, packets } from './client.ts';
import { EdgeHarness, type TestDevice } from './edge-harness.ts';

const tlsFile = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url));

let service: EdgeHarness;
let edge: MqttEdge;
let device: TestDevice;

beforeEach(() => {
  service = new EdgeHarness();
  device = service.addDevice();
});
afterEach(() => edge.close());

const talk = async (url: string, options: object = {}) => {
  const client = await Device.connect(service, device, 0, { url, ...options });
  await client.listen();
  await client.send('hello', { protocol: 'PROTO/3.1' });
  await eventually(() => expect(client.received).toMatchObject([{ type: 'hello_ack' }]));
  return client;
};

describe('over TLS', () => {
  const tls = { port: 0, cert: tlsFile('localhost.crt'), key: tlsFile('localhost.key') };
  const settings = {
    host: '127.0.0.1',
    port: 0,
    tls,
    maxConnections: 10,
    deviceRate: { perSecond: 50, burst: 500 },
  };

  it('a device communicates as over TCP', async () => {
    edge = await service.open({ settings });
    const client = await talk(`mqtts://localhost:${edge.tlsPort}`, { ca: tls.cert });
    await Promise.all(Array.from({ length: 100 }, (_, n) => client.send('state', { state: { n } })));
    await client.mqtt.endAsync();
    expect(service.counted).toMatchObject({ 'connected tls': 1, 'sign-in device': 1 });
  });

  it('a peer without TLS, or with a long packet, is disconnected', async () => {
    edge = await service.open({ settings });
    await expect(Device.connect(service, device, edge.tlsPort ?? 0)).rejects.toThrow();
    service.now += 1;
    const client = await talk(`mqtts://localhost:${edge.tlsPort}`, { ca: tls.cert });
    client.mqtt.publish(client.topic('state'), 'x'.repeat(70_000));
    await client.closed();
    expect(service.counted['closed oversized']).toBe(1);
  });
});

describe('over WebSocket', () => {
  let server: Server;
  let url: string;

  beforeEach(async () => {
    edge = await service.open();
    server = createServer();
    server.on('upgrade', (request, socket, head) => edge.upgrade(request, socket, head));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/mqtt`;
  });
  afterEach(async () => {
    server.closeAllConnections();
    server.close();
  });

  const open = async (protocols: string[] = ['mqtt']) => {
    const socket = new WebSocket(url, protocols);
    socket.on('error', () => {});
    const received: Buffer[] = [];
    socket.on('message', (data: Buffer) => received.push(data));
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    await Promise.race([once(socket, 'open'), closed]);
    return { socket, received, closed };
  };

  it('a device communicates as over TCP', async () => {
    const client = await talk(url);
    await Promise.all(Array.from({ length: 100 }, (_, n) => client.send('state', { state: { n } })));
    await client.mqtt.endAsync();
    await eventually(() => expect(service.live.size).toBe(0));
    expect(service.counted).toMatchObject({ 'connected websocket': 1, 'sign-in device': 1 });
  });

  it('packets are independent of frames', async () => {
    const { socket, received } = await open();
    const bytes = Buffer.concat([packets.connect(credentials(service, device)), packets.ping, packets.ping]);
    for (let at = 0; at < bytes.length; at += 7) socket.send(bytes.subarray(at, at + 7));
    await eventually(() => expect([...Buffer.concat(received)]).toEqual([0x20, 2, 0, 0, 0xd0, 0, 0xd0, 0]));
    socket.terminate();
  });

  it('the subprotocol mqtt is required', async () => {
    for (const protocols of [[], ['mqttv3.1'], ['graphql-transport-ws']]) {
      const { socket, closed } = await open(protocols);
      await closed;
      expect(socket.readyState).toBe(WebSocket.CLOSED);
    }
    const { socket } = await open(['other', 'mqtt']);
    expect(socket.protocol).toBe('mqtt');
    socket.terminate();
  });

  it('text frames and long packets end the connection', async () => {
    const text = await open();
    text.socket.send('hello');
    await text.closed;
    const long = await open();
    long.socket.send(Buffer.concat([Buffer.from([0x10, 0xff, 0x7f]), Buffer.alloc(6_000)]));
    await long.closed;
    expect(service.counted['closed oversized']).toBe(1);
  });

  it('an endless frame allocates no memory before the sign-in', async () => {
    const { socket, closed } = await open();
    const head = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4]); // 128 KiB are announced
    const raw = (socket as unknown as { _socket: NodeJS.WritableStream })._socket;
    raw.write(head);
    raw.write(Buffer.alloc(8_000));
    await closed;
    expect(service.counted['closed oversized']).toBe(1);
  });

  it('connections are refused while the edge closes', async () => {
    await edge.close();
    const { socket, closed } = await open();
    await closed;
    expect(socket.readyState).toBe(WebSocket.CLOSED);
  });
});
