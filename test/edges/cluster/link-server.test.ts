import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { v7 } from 'uuid';
import { afterEach, describe, expect, it } from 'vitest';
import { LinkError } from '../../../src/edges/cluster/link-dialler.ts';
import {
  deriveLinkKeys,
  HELLO_BYTES,
  type LinkContent,
  PROOF_BYTES,
} from '../../../src/edges/cluster/link-handshake.ts';
import { defaultLinkLimits } from '../../../src/edges/cluster/link-limits.ts';
import { LinkServer } from '../../../src/edges/cluster/link-server.ts';
import type { MqttTransport } from '../../../src/edges/shared/mqtt-client.ts';
import { type Endpoint, encodeProxyHeader } from '../../../src/edges/shared/proxy-protocol.ts';
import { readBytes } from '../../../src/edges/shared/read-bytes.ts';
import { eventually } from '../../support/clock.ts';
import { dialler, linkKeys, linkTls, masterKey, Owners, rawClient, startListener, type TestListener } from './links.ts';

const cleanup: (() => void)[] = [];
afterEach(() => {
  for (const end of cleanup.splice(0)) end();
});

const HTTP: LinkContent = { kind: 'http' };
const mqtt = (shard: number, transport: MqttTransport = 'tls'): LinkContent => ({ kind: 'mqtt', shard, transport });

async function listening(...given: Parameters<typeof startListener>): Promise<TestListener> {
  const started = await startListener(...given);
  cleanup.push(() => {
    started.listener.close();
    started.listener.abort();
  });
  return started;
}

function dialling(...given: Parameters<typeof dialler>): ReturnType<typeof dialler> {
  const made = dialler(...given);
  cleanup.push(() => made.abort());
  return made;
}

const faultOf = (opening: Promise<unknown>) =>
  opening.then(
    () => 'none',
    (error: unknown) => (error instanceof LinkError ? error.fault : error),
  );

describe.each([
  ['TCP', null],
  ['TLS', linkTls],
])('a link over %s', (_, tls) => {
  it('carries bytes both ways, from the first byte after the handshake', async () => {
    const { node, accepted } = await listening({ tls });
    const nodeId = v7();
    const socket = await dialling({ tls: tls !== null, nodeId }).open(node, HTTP);
    socket.write('question');
    const link = await eventually(() => accepted[0]);
    expect(link).toMatchObject({ kind: 'http', peer: nodeId });
    expect(String(await readBytes(link.socket, 8))).toBe('question');
    link.socket.write('answer');
    expect(String(await readBytes(socket, 6))).toBe('answer');
  });

  it.each([
    ['uses TLS', mqtt(7), true, { transport: 'tls', encrypted: true }],
    ['uses none', mqtt(7, 'tcp'), false, { transport: 'tcp', encrypted: false }],
    ['uses TLS up to a proxy', mqtt(7, 'tcp'), true, { transport: 'tcp', encrypted: true }],
    ['is on an earlier build, over a TLS port', mqtt(7), null, { transport: 'tls', encrypted: true }],
    ['is on an earlier build, over TCP', mqtt(7, 'tcp'), null, { transport: 'tcp', encrypted: false }],
  ] as const)('carries the address of an MQTT client, which %s', async (_client, content, encrypted, expected) => {
    const { node, accepted } = await listening({ tls });
    const socket = await dialling({ tls: tls !== null }).open(node, content);
    const client: Endpoint = { address: '192.0.2.7', port: 1234 };
    const header = encodeProxyHeader(client, { address: '0.0.0.0', port: 0 }, encrypted);
    socket.write(Buffer.concat([header, Buffer.from('CONNECT')]));
    const link = await eventually(() => accepted[0]);
    expect(link).toMatchObject({ kind: 'mqtt', client: { address: '192.0.2.7', ...expected } });
    expect(String(await readBytes(link.socket, 7))).toBe('CONNECT');
    link.leave();
  });

  it('with another key is refused by both sides, without a byte more', async () => {
    const { node, accepted, port } = await listening({ tls });
    const keys = deriveLinkKeys(masterKey('other'), null);
    expect(await faultOf(dialling({ tls: tls !== null, keys }).open(node, HTTP))).toBe('refused');
    expect(accepted).toEqual([]);
    if (tls !== null) return;
    const { socket, received, closed } = await rawClient(port);
    socket.write(Buffer.alloc(PROOF_BYTES));
    await closed;
    expect(received()).toHaveLength(HELLO_BYTES);
  });

  it('ends with its node: at the listener and at the client', async () => {
    const { node, listener, accepted } = await listening({ tls });
    const client = dialling({ tls: tls !== null });
    const [first, second] = [await client.open(node, HTTP), await client.open(node, HTTP)];
    await eventually(() => accepted.length === 2);
    client.abort(v7());
    listener.abort(v7());
    expect(client.sizes()).toEqual({ cluster_dialled_links: 2 });
    listener.abort(accepted[0]?.peer);
    await Promise.all([once(first.resume(), 'close'), once(second.resume(), 'close')]);
    expect(client.sizes()).toEqual({ cluster_dialled_links: 0 });
    expect(listener.sizes()).toEqual({ cluster_unauthenticated_links: 0, cluster_accepted_links: 0 });
  });
});

describe('a link to a shard', () => {
  it('is misdirected if another node owns the shard, and counts as in progress at the owner', async () => {
    const { node, owners, accepted } = await listening();
    owners.give(8, v7());
    const client = dialling();
    expect(await faultOf(client.open(node, mqtt(8)))).toBe('misdirected');
    expect(await faultOf(client.open(node, { kind: 'upgrade', shard: 9 }))).toBe('none');
    await eventually(() => accepted.length === 1);
    expect(owners.inProgress(node.id, 9)).toBe(1);
    accepted[0]?.leave();
    expect(owners.inProgress(node.id, 9)).toBe(0);
  });

  it('waits while the shard moves', async () => {
    const moved = Promise.withResolvers<{ at: 'here'; leave(): void }>();
    const { node } = await listening({ directory: { enter: () => moved.promise } });
    const opening = dialling().open(node, mqtt(8));
    moved.resolve({ at: 'here', leave: () => {} });
    expect(await faultOf(opening)).toBe('none');
  });

  it('is left if the client disconnects before its address arrived', async () => {
    const { node, owners } = await listening();
    const socket = await dialling().open(node, mqtt(8));
    expect(owners.inProgress(node.id, 8)).toBe(1);
    socket.destroy();
    await eventually(() => owners.inProgress(node.id, 8) === 0);
  });

  it('is left if the header with the address is not valid', async () => {
    const { node, owners, accepted } = await listening();
    const socket = await dialling().open(node, mqtt(8));
    socket.write('CONNECT without a header');
    await once(socket.resume(), 'end');
    expect([owners.inProgress(node.id, 8), accepted.length]).toEqual([0, 0]);
  });
});

describe('a node that cannot be reached', () => {
  it('with a closed port is reported at once', async () => {
    const { node, listener } = await listening();
    listener.close();
    expect(await faultOf(dialling().open(node, HTTP))).toBe('unreachable');
  });

  it('that sends nothing is reported after the time limit', async () => {
    const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
    cleanup.push(() => silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    const client = dialling({ limits: { confirmMs: 20 } });
    expect(await faultOf(client.open({ id: v7(), address: `127.0.0.1:${port}` }, HTTP))).toBe('unreachable');
    expect(client.sizes()).toEqual({ cluster_dialled_links: 0 });
  });

  it('that is another node at this address is refused', async () => {
    const { node } = await listening();
    expect(await faultOf(dialling().open({ ...node, id: v7() }, HTTP))).toBe('refused');
  });

  it('at an address with a name, or an IPv6 address, is parsed', async () => {
    const { node, port } = await listening();
    expect(await faultOf(dialling().open({ ...node, address: `localhost:${port}` }, HTTP))).toBe('none');
    expect(['unreachable', 'refused']).toContain(
      await faultOf(dialling().open({ id: v7(), address: `[::1]:${port}` }, HTTP)),
    );
  });
});

describe('a peer without the key', () => {
  it('that sends nothing, or a part of a proof, is disconnected after the time limit', async () => {
    const { port, listener } = await listening({ limits: { handshakeMs: 30 } });
    const silent = await rawClient(port);
    const slow = await rawClient(port);
    slow.socket.write(Buffer.alloc(PROOF_BYTES - 1));
    await Promise.all([silent.closed, slow.closed]);
    expect(slow.received()).toHaveLength(HELLO_BYTES);
    await eventually(() => listener.sizes().cluster_unauthenticated_links === 0);
  });

  it('that ends its side in the handshake is disconnected', async () => {
    const { port } = await listening();
    const { socket, closed } = await rawClient(port);
    socket.end(Buffer.alloc(10));
    await closed;
  });

  it('cannot keep nodes out by many open connections', async () => {
    const { node, port, listener } = await listening({ limits: { maxUnauthenticated: 3 } });
    const first = await rawClient(port);
    for (let n = 0; n < 3; n += 1) await rawClient(port);
    await first.closed;
    expect(await faultOf(dialling().open(node, HTTP))).toBe('none');
    expect(listener.sizes().cluster_unauthenticated_links).toBeLessThanOrEqual(3);
  });

  it('that relays a handshake between two TLS sessions is refused', async () => {
    const { node, port, accepted } = await listening({ tls: linkTls });
    const relay = createTlsServer({ ...linkTls, minVersion: 'TLSv1.3' }, (socket) => {
      const onward = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
      for (const end of [socket, onward]) end.on('error', () => {});
      socket.pipe(onward).pipe(socket);
    }).listen(0, '127.0.0.1');
    cleanup.push(() => relay.close());
    await once(relay, 'listening');
    const { port: relayPort } = relay.address() as { port: number };
    const through = { id: node.id, address: `127.0.0.1:${relayPort}` };
    expect(await faultOf(dialling({ tls: true }).open(through, HTTP))).toBe('refused');
    expect(accepted).toEqual([]);
  });
});

it('no byte leaves a link after the lease has expired', async () => {
  let valid = true;
  const { node, accepted } = await listening({ lease: { valid: () => valid } });
  const socket = await dialling().open(node, HTTP);
  const link = await eventually(() => accepted[0]);
  valid = false;
  const received: Buffer[] = [];
  socket.on('data', (chunk) => received.push(chunk));
  link.socket.write('answer');
  await once(socket, 'close');
  expect(received).toEqual([]);
});

it('a port that another process listens on is not shared', async () => {
  const { port } = await listening();
  const second = new LinkServer({
    ...{ nodeId: v7(), keys: linkKeys, tls: null, lease: { valid: () => true }, limits: defaultLinkLimits },
    directory: new Owners().directoryOf(v7()),
    onLink: ({ socket }) => socket.destroy(),
  });
  await expect(second.listen('127.0.0.1', port)).rejects.toThrow('EADDRINUSE');
});
