import { PassThrough } from 'node:stream';
import { generate, type IConnectPacket } from 'mqtt-packet';
import { describe, expect, it } from 'vitest';
import { credentialsIn, readConnect } from '../../../src/edges/cluster/connect-packet.ts';
import { StreamEnded } from '../../../src/edges/shared/read-bytes.ts';
import { fc } from '../../support/properties.ts';

const connect = (more: Partial<IConnectPacket>, version: 3 | 4 | 5 = 4): Buffer =>
  generate(
    {
      ...{ cmd: 'connect', clientId: 'c', clean: true, keepalive: 0, protocolVersion: version },
      protocolId: version === 3 ? 'MQIsdp' : 'MQTT',
      ...more,
    } as IConnectPacket,
    { protocolVersion: version },
  );

const read = (bytes: Buffer, maxBytes = 4_096) => {
  const source = new PassThrough();
  source.write(bytes);
  return { source, first: readConnect(source, maxBytes) };
};

describe('the credentials of a CONNECT', () => {
  const will = { topic: 'gone', payload: Buffer.from('bye'), qos: 1, retain: false } as const;

  it.each([
    ['MQTT 3.1', connect({ username: 'tenant', password: Buffer.from('secret') }, 3)],
    ['MQTT 3.1.1', connect({ username: 'tenant', password: Buffer.from('secret') })],
    ['MQTT 3.1.1 with a will', connect({ username: 'tenant', password: Buffer.from('secret'), will })],
    [
      'MQTT 5 with properties and a will',
      connect(
        {
          ...{ username: 'tenant', password: Buffer.from('secret') },
          properties: { sessionExpiryInterval: 9, userProperties: { a: 'x'.repeat(200) } },
          will: { ...will, properties: { willDelayInterval: 3, contentType: 'text/plain' } },
        },
        5,
      ),
    ],
  ])('are read from %s', async (_, bytes) => {
    const { credentials } = await read(bytes).first;
    expect([credentials?.username, String(credentials?.password)]).toEqual(['tenant', 'secret']);
  });

  it('are read as the library reads them, and all bytes are kept', async () => {
    const text = fc.string({ minLength: 1, maxLength: 50, unit: 'grapheme' });
    const fields = fc.record({
      username: text,
      password: fc.option(fc.uint8Array({ minLength: 1, maxLength: 60 }), { nil: undefined }),
      clientId: text,
      version: fc.constantFrom(3, 4, 5) as fc.Arbitrary<3 | 4 | 5>,
      rest: fc.uint8Array({ maxLength: 20 }),
    });
    await fc.assert(
      fc.asyncProperty(fields, async ({ username, password, clientId, version, rest }) => {
        const packet = connect(
          { username, clientId, ...(password !== undefined && { password: Buffer.from(password) }) },
          version,
        );
        const { source, first } = read(Buffer.concat([packet, rest]));
        const { bytes, credentials } = await first;
        expect(bytes).toEqual(packet);
        expect(source.read() ?? Buffer.alloc(0)).toEqual(Buffer.from(rest));
        expect(credentials?.username).toBe(username);
        expect(credentials?.password ?? null).toEqual(password === undefined ? null : Buffer.from(password));
      }),
    );
  });

  it('have no user name and no password if the packet has none', async () => {
    expect((await read(connect({})).first).credentials).toEqual({ username: null, password: null });
  });

  it('are missing in a packet that ends too early, at any length', () => {
    const body = connect({ username: 'tenant', password: Buffer.from('secret') }).subarray(2);
    for (let length = 0; length < body.length; length += 1) expect(credentialsIn(body.subarray(0, length))).toBeNull();
  });

  it('of any bytes are read without an exception', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => void credentialsIn(Buffer.from(bytes))));
  });
});

describe('a first packet', () => {
  it.each([
    ['of another type', [0x30, 0, 0], [0x30]],
    ['with flags', [0x11, 0], [0x11]],
    ['that is longer than allowed', [0x10, 0xff, 0x7f, 1, 2], [0x10, 0xff, 0x7f]],
    ['with a length of five bytes', [0x10, 0xff, 0xff, 0xff, 0xff, 1], [0x10, 0xff, 0xff, 0xff, 0xff]],
    ['that is empty', [0x10, 0], [0x10, 0]],
  ])('%s has no credentials, and is not read further', async (_, bytes, taken) => {
    const { source, first } = read(Buffer.from(bytes));
    expect(await first).toEqual({ bytes: Buffer.from(taken), credentials: null });
    expect([...((source.read() as Buffer | null) ?? [])]).toEqual(bytes.slice(taken.length));
  });

  it('that ends early rejects', async () => {
    const { source, first } = read(Buffer.from([0x10, 5, 0]));
    source.end();
    await expect(first).rejects.toBeInstanceOf(StreamEnded);
    await expect(readConnect(source, 10)).rejects.toBeInstanceOf(StreamEnded);
  });
});
