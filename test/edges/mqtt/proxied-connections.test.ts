import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encodeProxyHeader, PROXY_SIGNATURE } from '../../../src/edges/shared/proxy-protocol.ts';
import { eventually, packets } from './client.ts';
import { EdgeHarness, type OpenMqttEdge } from './edge-harness.ts';

const tlsFile = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url));
const tls = { port: 0, cert: tlsFile('localhost.crt'), key: tlsFile('localhost.key') };
const header = encodeProxyHeader({ address: '192.0.2.7', port: 1 }, { address: '203.0.113.1', port: 2 });
const line = Buffer.from('PROXY TCP4 192.0.2.8 203.0.113.1 1 2\r\n');
const connectPacket = packets.connect({ clientId: 'c', username: 'jwt', password: 'x' });

let edge: OpenMqttEdge;
/** The addresses from which clients have signed in. */
let addresses: (string | null)[];
const sockets: Socket[] = [];

const open = async (trustedProxies: string[], limits: { connectMs?: number } = {}) => {
  edge = await new EdgeHarness().open({
    settings: {
      ...{ host: '127.0.0.1', port: 0, tls, maxConnections: 10, trustedProxies },
      deviceRate: { perSecond: 50, burst: 500 },
    },
    authenticateUser: async (_secret, address) => {
      addresses.push(address);
      return null;
    },
    limits,
  });
};
const dial = (port = edge.port) => {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => {});
  sockets.push(socket);
  return socket;
};
/** A TLS connection on which these bytes were sent before the handshake. */
const dialTls = async (first: Buffer): Promise<TLSSocket> => {
  const connection = dial(edge.tlsPort ?? 0);
  connection.write(first);
  const socket = connectTls({ socket: connection, ca: tls.cert, servername: 'localhost' });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  return socket;
};

beforeEach(() => {
  addresses = [];
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await edge.close();
});

describe('behind a trusted balancer', () => {
  beforeEach(() => open(['127.0.0.1']));

  it('a header gives the client’s address, whatever its pieces', async () => {
    dial().write(Buffer.concat([header, connectPacket]));
    await eventually(() => expect(addresses).toEqual(['192.0.2.7']));
    const slow = dial();
    await once(slow, 'connect');
    slow.setNoDelay(true);
    for (const byte of Buffer.concat([header, connectPacket]))
      await new Promise((resolve) => slow.write(Buffer.from([byte]), resolve));
    await eventually(() => expect(addresses).toEqual(['192.0.2.7', '192.0.2.7']));
  });

  it('a header that names a certificate signs in no device', async () => {
    const ends = [
      { address: '192.0.2.7', port: 1 },
      { address: '203.0.113.1', port: 2 },
    ] as const;
    const socket = dial();
    socket.write(encodeProxyHeader(...ends, true, Buffer.from('certificate')));
    socket.write(packets.connect({ clientId: 'c' }));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString('hex')).toBe('20020005');
  });

  it('a header before the TLS handshake gives the client’s address', async () => {
    (await dialTls(header)).write(connectPacket);
    await eventually(() => expect(addresses).toEqual(['192.0.2.7']));
  });

  it('a header of version 1 gives the client’s address, whatever its pieces', async () => {
    dial().write(Buffer.concat([line, connectPacket]));
    await eventually(() => expect(addresses).toEqual(['192.0.2.8']));
    const slow = dial();
    await once(slow, 'connect');
    slow.setNoDelay(true);
    for (const byte of Buffer.concat([line, connectPacket]))
      await new Promise((resolve) => slow.write(Buffer.from([byte]), resolve));
    await eventually(() => expect(addresses).toEqual(['192.0.2.8', '192.0.2.8']));
    dial().write(Buffer.concat([Buffer.from('PROXY UNKNOWN\r\n'), connectPacket]));
    await eventually(() => expect(addresses).toEqual(['192.0.2.8', '192.0.2.8', '127.0.0.1']));
  });

  it('a header of version 1 before the TLS handshake gives the client’s address', async () => {
    (await dialTls(line)).write(connectPacket);
    await eventually(() => expect(addresses).toEqual(['192.0.2.8']));
  });

  it('a connection without a header has the balancer’s address, over TCP and TLS', async () => {
    dial().write(connectPacket);
    await eventually(() => expect(addresses).toEqual(['127.0.0.1']));
    (await dialTls(Buffer.alloc(0))).write(connectPacket);
    await eventually(() => expect(addresses).toEqual(['127.0.0.1', '127.0.0.1']));
  });

  it('a health check of the balancer itself has its address', async () => {
    dial().write(Buffer.concat([PROXY_SIGNATURE, Buffer.from([0x20, 0, 0, 0]), connectPacket]));
    await eventually(() => expect(addresses).toEqual(['127.0.0.1']));
  });

  it('an invalid header ends the connection', async () => {
    const broken = Buffer.from(header);
    broken[12] = 0x31;
    const invalid = ['\r\n\r\n0123456789ab', 'PROXY TCP4 192.0.2.8 203.0.113.1 1\r\n', 'P\x10'];
    for (const bytes of [broken, ...invalid.map((text) => Buffer.from(text, 'latin1'))]) {
      const socket = dial();
      socket.write(bytes);
      await once(socket.resume(), 'close');
    }
    expect(addresses).toEqual([]);
  });

  it('a second header is not accepted', async () => {
    const socket = dial();
    socket.write(Buffer.concat([header, header, connectPacket]));
    await once(socket.resume(), 'close');
    const mixed = dial();
    mixed.write(Buffer.concat([line, header, connectPacket]));
    await once(mixed.resume(), 'close');
    expect(addresses).toEqual([]);
  });
});

it('a balancer that sends nothing is disconnected after the time limit', async () => {
  await open(['127.0.0.1'], { connectMs: 30 });
  const [silent, slow] = [dial(), dial(edge.tlsPort ?? 0)];
  slow.write(header.subarray(0, 20));
  await Promise.all([once(silent.resume(), 'close'), once(slow.resume(), 'close')]);
});

it('a header of another peer is not accepted', async () => {
  await open(['198.51.100.0/24']);
  for (const first of [header, line]) {
    const socket = dial();
    socket.write(Buffer.concat([first, connectPacket]));
    await once(socket.resume(), 'close');
  }
  expect(addresses).toEqual([]);
  dial().write(connectPacket);
  await eventually(() => expect(addresses).toEqual(['127.0.0.1']));
});
