import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { credentials, Device, eventually, packets, Raw } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

const tlsFile = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url));

let service: EdgeHarness;
let edge: OpenMqttEdge;
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

describe('silent connections of one address', () => {
  const tls = { port: 0, cert: tlsFile('localhost.crt'), key: tlsFile('localhost.key') };
  const settings = { host: '127.0.0.1', port: 0, tls, maxConnections: 40, deviceRate: { perSecond: 50, burst: 500 } };
  const silent = (port: number) => Promise.all(Array.from({ length: 10 }, () => Raw.open(port)));
  const ended = (peers: readonly Raw[]) => peers.filter((peer) => peer.ended).length;

  it.each(['tcp', 'tls'])('do not keep a device out, over %s', async (transport) => {
    edge = await service.open({ settings, limits: { unauthenticatedPerNetwork: 3, silentMs: 0 } });
    const port = transport === 'tcp' ? edge.port : (edge.tlsPort as number);
    const peers = await silent(port);
    await eventually(() => expect(ended(peers)).toBe(7));
    const client = await talk(`${transport === 'tcp' ? 'mqtt' : 'mqtts'}://localhost:${port}`, { ca: tls.cert });
    // The device has taken the place of one of them, and has left it for the next one.
    await eventually(() => expect(ended(peers)).toBe(8));
    expect(edge.sizes().unauthenticated_connections).toBe(2);
    await client.send('state', { state: { on: true } });
    await client.mqtt.endAsync();
    for (const peer of peers) peer.socket.destroy();
    await eventually(() => expect(edge.sizes().unauthenticated_connections).toBe(0));
  });

  it('do not end a sign-in that takes long', async () => {
    edge = await service.open({ settings, limits: { unauthenticatedPerNetwork: 2, silentMs: 0 } });
    const looked = Promise.withResolvers<void>();
    service.lookup = () => looked.promise;
    const signingIn = talk(`mqtt://localhost:${edge.port}`);
    await eventually(() =>
      expect(edge.sizes()).toMatchObject({ unauthenticated_connections: 1, unauthenticated_silent: 0 }),
    );
    const peers = await silent(edge.port);
    await eventually(() => expect(ended(peers)).toBe(9));
    looked.resolve();
    const client = await signingIn;
    await client.mqtt.endAsync();
    for (const peer of peers) peer.socket.destroy();
  });

  it('are refused while the others may be signing in', async () => {
    edge = await service.open({ settings, limits: { unauthenticatedPerNetwork: 3, silentMs: 3_600_000 } });
    const peers = await silent(edge.port);
    await eventually(() => expect(peers.map((peer) => peer.ended)).toEqual(peers.map((_, n) => n >= 3)));
    peers[0]?.socket.destroy();
    await eventually(() => expect(edge.sizes().unauthenticated_connections).toBe(2));
    const client = await talk(`mqtt://localhost:${edge.port}`);
    await client.mqtt.endAsync();
    for (const peer of peers) peer.socket.destroy();
  });

  it('of all addresses together take no place of a signed-in device', async () => {
    edge = await service.open({ settings: { ...settings, maxConnections: 4 }, limits: { silentMs: 0 } });
    const tenant = service.addTenant();
    const devices: Device[] = [];
    for (let n = 0; n < 3; n += 1) devices.push(await Device.connect(service, service.addDevice(tenant), edge.port));
    const peers = await silent(edge.port);
    await eventually(() => expect(ended(peers)).toBe(9));
    const client = await talk(`mqtt://localhost:${edge.port}`);
    for (const one of [...devices, client]) expect(one.mqtt.connected).toBe(true);
    await Promise.all([...devices, client].map((one) => one.mqtt.endAsync()));
    for (const peer of peers) peer.socket.destroy();
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

  it('silent connections beyond the limit of their address are refused with a response', async () => {
    await edge.close();
    edge = await service.open({ limits: { unauthenticatedPerNetwork: 1, silentMs: 3_600_000 } });
    const first = await open();
    const refused = new WebSocket(url, ['mqtt']);
    refused.on('error', () => {});
    const [, response] = (await once(refused, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '2']);
    first.socket.terminate();
    await eventually(() => expect(edge.sizes().unauthenticated_connections).toBe(0));
    const client = await talk(url);
    expect(edge.sizes().unauthenticated_connections).toBe(0);
    await client.mqtt.endAsync();
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
