import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { shardOf } from '../../../src/domain/shards.ts';
import type { MqttClient } from '../../../src/edges/shared/mqtt-client.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import { connack, Device, packets } from '../mqtt/client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from '../mqtt/edge-harness.ts';
import { impatient, namedHints, TestCluster, type TestNode } from './nodes.ts';

let cluster: TestCluster;
const cleanup: (() => unknown)[] = [];
beforeEach(() => {
  cluster = new TestCluster();
});
afterEach(async () => {
  for (const end of cleanup.splice(0).reverse()) await end();
  await cluster.close();
});

const UNAVAILABLE = '20020003';

/** A connection that the session layer of a node has accepted. */
const tlsClient: MqttClient = { address: '192.0.2.7', transport: 'tls', encrypted: true };

interface Accepted {
  node: TestNode;
  source: Duplex;
  client: MqttClient;
  received: Buffer[];
  ended: boolean;
}

describe('a connection', () => {
  let accepted: Accepted[];
  let here: TestNode;
  let there: TestNode;
  let port: number;

  const accept = (node: TestNode, source: Duplex, client: MqttClient): Accepted => {
    const connection: Accepted = { node, source, client, received: [], ended: false };
    source.on('data', (chunk) => connection.received.push(chunk));
    source.on('end', () => {
      connection.ended = true;
    });
    source.on('error', () => {});
    accepted.push(connection);
    return connection;
  };
  const start = (more: Parameters<TestCluster['start']>[1] = {}) =>
    cluster.start((node) => ({ acceptMqtt: (source, client) => accept(node(), source, client) }), more);
  const listen = async (node: TestNode, client = tlsClient): Promise<number> => {
    const server = createServer((socket) => {
      void node.edge.routeMqtt(socket, client, () => void accept(node, socket, client));
    }).listen(0, '127.0.0.1');
    cleanup.push(() => server.close());
    await once(server, 'listening');
    return (server.address() as { port: number }).port;
  };
  /** A client that has sent these bytes, with what it received. */
  const dial = (bytes: Buffer, to = port) => {
    const socket = connect({ port: to, host: '127.0.0.1' });
    cleanup.push(() => socket.destroy());
    socket.on('error', () => {});
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk));
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.write(bytes);
    return { socket, closed, received: () => Buffer.concat(received) };
  };
  const signIn = (username = cluster.tenantId, password = 'secret') =>
    packets.connect({ clientId: 'c', username, password });

  beforeEach(async () => {
    accepted = [];
    here = await start();
    there = await start();
    cluster.owners.give(cluster.shard, there.id);
    port = await listen(here);
  });

  it('of a device is accepted by the owner of its tenant, with the client’s address and all bytes', async () => {
    const bytes = Buffer.concat([signIn(), packets.ping]);
    const { socket, received } = dial(bytes);
    const connection = await eventually(() => accepted[0]);
    expect(connection).toMatchObject({ node: there, client: tlsClient });
    await eventually(() => Buffer.concat(connection.received).equals(bytes));
    connection.source.write(Buffer.from([0x20, 2, 0, 0]));
    await eventually(() => received().toString('hex') === '20020000');
    expect(cluster.owners.inProgress(there.id, cluster.shard)).toBe(0);
    socket.write('more');
    await eventually(() => Buffer.concat(connection.received).toString().endsWith('more'));
  });

  it('with an IPv6 address is accepted with it', async () => {
    const client: MqttClient = { address: '2001:db8::7', transport: 'tcp', encrypted: false };
    const server = createServer((socket) => void here.edge.routeMqtt(socket, client, () => {}));
    server.listen(0, '127.0.0.1');
    cleanup.push(() => server.close());
    await once(server, 'listening');
    dial(signIn(), (server.address() as { port: number }).port);
    await eventually(() => accepted.length > 0);
    expect(accepted[0]).toMatchObject({ node: there, client });
  });

  const ownTenant = () => {
    cluster.owners.give(cluster.shard, here.id);
    return signIn();
  };
  it.each([
    ['of a tenant of this node', ownTenant],
    ['of a user without a hint', () => signIn('jwt', 'unknown')],
    ['without a tenant as user name', () => signIn('somebody')],
    ['without a user name', () => packets.connect({ clientId: 'c' })],
    ['that starts with another packet', () => packets.ping],
    ['that announces too long a packet', () => Buffer.from([0x10, 0xff, 0x7f])],
  ])('%s is accepted here, with all bytes', async (_, make) => {
    const bytes = make();
    dial(bytes);
    await eventually(() => accepted.length > 0);
    expect(accepted[0]).toMatchObject({ node: here, client: tlsClient });
    await eventually(() => Buffer.concat(accepted[0]?.received ?? []).equals(bytes));
    expect(cluster.owners.inProgress(here.id, cluster.shard)).toBe(0);
  });

  it('of a user is routed by the credential in its password', async () => {
    dial(signIn('jwt', `tenant ${cluster.tenantId}`));
    await eventually(() => accepted.length > 0);
    expect(accepted[0]?.node).toBe(there);
  });

  it('of a device is routed by its certificate, which the owner gets', async () => {
    const certificate = Buffer.from(`tenant ${cluster.tenantId}`.padEnd(60));
    const client = { ...tlsClient, certificate: Buffer.concat([certificate, Buffer.alloc(3_000)]) };
    const named = { ...client, certificate: Buffer.from(`tenant ${cluster.tenantId}`) };
    dial(packets.connect({ clientId: 'c' }), await listen(here, named));
    await eventually(() => accepted.length > 0);
    expect(accepted[0]).toMatchObject({ node: there, client: named });
    // With a password, or as a user, the certificate has no part in it.
    dial(signIn(), await listen(here, { ...named, certificate: Buffer.from('tenant unknown') }));
    await eventually(() => accepted.length > 1);
    expect(accepted[1]?.node).toBe(there);
    // The longest certificate fits.
    const longest = { ofCertificate: async () => cluster.tenantId };
    const other = await start({ hints: { ...namedHints, ...longest } as never });
    dial(packets.connect({ clientId: 'c' }), await listen(other, client));
    await eventually(() => accepted.length > 2);
    expect(accepted[2]).toMatchObject({ node: there, client });
    // The tenant in the user name counts before the certificate.
    const unknown = { ...named, certificate: Buffer.from('tenant unknown') };
    dial(packets.connect({ clientId: 'c', username: cluster.tenantId }), await listen(here, unknown));
    await eventually(() => accepted.length > 3);
    expect(accepted[3]).toMatchObject({ node: there, client: unknown });
  });

  it.each([
    ['has no owner', () => cluster.owners.give(cluster.shard, undefined)],
    ['has an owner that cannot be reached', () => there.edge.abort()],
  ])('whose tenant %s gets a CONNACK with return code 3', async (_, arrange) => {
    arrange();
    const { received, closed, socket } = dial(signIn(), await listen(await start(impatient)));
    await closed;
    expect([received().toString('hex'), accepted.length]).toEqual([UNAVAILABLE, 0]);
    socket.destroy();
  });

  it('whose owner cannot be reached waits for the node that takes over', async () => {
    there.edge.abort();
    const bytes = signIn();
    dial(bytes);
    await eventually(() => cluster.owners.refreshes > 1);
    const heir = await start();
    cluster.owners.give(cluster.shard, heir.id);
    const connection = await eventually(() => accepted[0]);
    expect(connection.node).toBe(heir);
    await eventually(() => Buffer.concat(connection.received).equals(bytes));
  });

  it('whose tenant cannot be found during a store outage gets a CONNACK with return code 3', async () => {
    const fails = () => Promise.reject(new StoreUnavailable('away'));
    const other = await start({ hints: { ...namedHints, ofCredential: fails } as never });
    const { received, closed } = dial(signIn('jwt', 'x'), await listen(other));
    await closed;
    expect(received().toString('hex')).toBe(UNAVAILABLE);
  });

  it('is sent to the new owner if this node has outdated owners', async () => {
    const third = await start();
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, third.id);
    dial(signIn());
    await eventually(() => accepted.length > 0);
    expect([accepted[0]?.node, accepted.length]).toEqual([third, 1]);
    cluster.owners.give(cluster.shard, there.id);
    cluster.owners.freeze(here.id);
    cluster.owners.give(cluster.shard, here.id);
    const bytes = signIn();
    dial(bytes);
    await eventually(() => accepted.length > 1);
    expect(accepted[1]?.node).toBe(here);
    await eventually(() => Buffer.concat(accepted[1]?.received ?? []).equals(bytes));
  });

  it('that the owner does not accept is closed', async () => {
    const full = await cluster.start(() => ({ acceptMqtt: () => null }));
    cluster.owners.give(cluster.shard, full.id);
    await dial(signIn()).closed;
    expect(cluster.owners.inProgress(full.id, cluster.shard)).toBe(0);
  });

  it('that sends nothing, or a part of a CONNECT, is closed after the time limit', async () => {
    const impatient = await start({ mqttLimits: { connectMs: 30, maxPacketBytesBeforeConnack: 4_096 } });
    const to = await listen(impatient);
    await Promise.all([dial(Buffer.alloc(0), to).closed, dial(signIn().subarray(0, 9), to).closed]);
    expect(accepted).toEqual([]);
  });

  it('carries large amounts both ways, and neither side runs ahead of the other', async () => {
    const { socket, received } = dial(signIn());
    await eventually(() => accepted.length > 0);
    const { source, received: arrived } = accepted[0] as Accepted;
    source.pause();
    const sent = randomBytes(32 * 1024 * 1024);
    socket.write(sent);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 1);
    expect(socket.writableLength).toBeGreaterThan(0);
    source.resume();
    const total = signIn().length + sent.length;
    await eventually(() => arrived.reduce((sum, { length }) => sum + length, 0) === total);
    expect(Buffer.concat(arrived).subarray(signIn().length).equals(sent)).toBe(true);
    source.end(sent);
    await eventually(() => received().length === sent.length);
    expect(received().equals(sent)).toBe(true);
  });

  it('ends at the owner when the client ends or breaks it, with its last bytes', async () => {
    for (const end of [(socket: Socket) => socket.end('last'), (socket: Socket) => socket.destroy()]) {
      accepted = [];
      const { socket } = dial(signIn());
      const connection = await eventually(() => accepted[0]);
      end(socket);
      await eventually(() => connection.ended || connection.source.destroyed);
      connection.source.destroy();
    }
    expect(here.edge.sizes().cluster_dialled_links).toBeLessThanOrEqual(2);
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
  });

  it('ends at the client when the owner ends or breaks it, with the last bytes', async () => {
    for (const end of [
      (source: Duplex) => source.end('last'),
      (source: Duplex) => (source as Socket).resetAndDestroy(),
    ]) {
      accepted = [];
      const { received, closed } = dial(signIn());
      const connection = await eventually(() => accepted[0]);
      end(connection.source);
      await closed;
      expect(['last', '']).toContain(received().toString());
    }
    await eventually(() => here.edge.sizes().cluster_dialled_links === 0);
  });

  it('that has gone when the link is open closes the link', async () => {
    const moved = Promise.withResolvers<void>();
    const slow = await start({
      directory: {
        enter: async () => {
          await moved.promise;
          return { at: 'here', leave: () => {} };
        },
        refresh: async () => {},
      },
    });
    cluster.owners.give(cluster.shard, slow.id);
    const { socket } = dial(signIn());
    await eventually(() => here.edge.sizes().cluster_dialled_links === 1);
    socket.resetAndDestroy();
    await eventually(async () => {
      moved.resolve();
      return here.edge.sizes().cluster_dialled_links === 0;
    });
  });
});

describe('with the session layer', () => {
  const open: { harness: EdgeHarness; mqtt: OpenMqttEdge; node: TestNode }[] = [];

  /** A node with the real MQTT edge on public ports. All know the same devices. */
  async function startBroker(devices?: EdgeHarness): Promise<(typeof open)[number]> {
    const harness = new EdgeHarness();
    if (devices !== undefined) for (const [id, row] of devices.rows) harness.rows.set(id, row);
    if (devices !== undefined) for (const [id, tenant] of devices.tenants) harness.tenants.set(id, tenant);
    let mqtt: OpenMqttEdge | null = null;
    const node = await cluster.start(() => ({
      acceptMqtt: (source, client) => mqtt?.accept(source, client) ?? null,
      upgrade: (request, socket, head) => mqtt?.upgrade(request, socket, head),
    }));
    mqtt = await harness.open({ route: node.edge.routeMqtt });
    const started = { harness, mqtt, node };
    open.push(started);
    cleanup.push(() => mqtt?.close());
    return started;
  }

  it('a device communicates through any node, over TCP and WebSocket, with one session', async () => {
    const owner = await startBroker();
    const tenantId = owner.harness.addTenant();
    const devices = Array.from({ length: 3 }, () => owner.harness.addDevice(tenantId));
    const other = await startBroker(owner.harness);
    cluster.owners.give(shardOf(tenantId), owner.node.id);
    const webSocket = `ws://127.0.0.1:${other.node.port}/mqtt`;
    const [viaTcp, viaWebSocket, direct] = await Promise.all([
      Device.connect(owner.harness, devices[0] as TestDevice, other.mqtt.port),
      Device.connect(owner.harness, devices[1] as TestDevice, 0, { url: webSocket }),
      Device.connect(owner.harness, devices[2] as TestDevice, owner.mqtt.port),
    ]);
    for (const client of [viaTcp, viaWebSocket, direct]) {
      await client.listen();
      await Promise.all(Array.from({ length: 50 }, (_, n) => client.send('state', { state: { n } })));
    }
    expect(owner.harness.live.size).toBe(3);
    for (const client of [viaTcp, viaWebSocket, direct]) await client.mqtt.endAsync();
    await eventually(() => owner.harness.live.size === 0);
    expect(owner.harness.counted).toMatchObject({ 'connected tcp': 2, 'connected websocket': 1, 'sign-in device': 3 });
    expect(other.harness.counted).toEqual({});
  });

  it('a refused sign-in is answered by the owner', async () => {
    const owner = await startBroker();
    const other = await startBroker();
    const tenantId = v7();
    cluster.owners.give(shardOf(tenantId), owner.node.id);
    expect(await connack(other.mqtt.port, { username: tenantId, password: 'wrong', clientId: 'c' })).toBe(5);
    expect([owner.harness.counted['sign-in refused'], other.harness.counted]).toEqual([1, {}]);
  });

  it('long WebSocket messages before the CONNECT end the connection, and afterwards they pass to the owner', async () => {
    const owner = await startBroker();
    const device = owner.harness.addDevice();
    const other = await startBroker(owner.harness);
    cluster.owners.give(shardOf(device.tenantId), owner.node.id);
    const socket = new WebSocket(`ws://127.0.0.1:${other.node.port}/mqtt`, ['mqtt']);
    socket.on('error', () => {});
    await once(socket, 'open');
    const closed = once(socket, 'close');
    socket.send(Buffer.concat([Buffer.from([0x10, 0xff, 0x1f]), Buffer.alloc(6_000)]));
    await closed;
    const client = await Device.connect(owner.harness, device, 0, { url: `ws://127.0.0.1:${other.node.port}/mqtt` });
    for (let n = 0; n < 10; n += 1) await client.send('state', { state: { text: 'x'.repeat(2_000) } });
    await client.mqtt.endAsync();
  });
});
