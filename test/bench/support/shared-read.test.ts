import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PUBLISH, packetReader, publishText, readPublish } from '../../../bench/support/mqtt-packets.ts';
import { RawConnection } from '../../../bench/support/raw-http.ts';
import { slow } from '../../support/slow.ts';

describe('connections that share one buffer for their reads', () => {
  let server: Server;
  let port: number;
  let sockets: Socket[];
  beforeEach(async () => {
    sockets = [];
    server = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ({ port } = server.address() as AddressInfo);
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  const request = (): Promise<[Socket, Socket]> =>
    new Promise((resolve) => {
      const asked = new Set<Socket>();
      const listen = (socket: Socket) =>
        socket.on('data', () => {
          asked.add(socket);
          if (asked.size === 2) resolve(sockets as [Socket, Socket]);
        });
      for (const socket of sockets) listen(socket);
      server.on('connection', listen);
    });
  const written = (socket: Socket, text: string): Promise<void> =>
    new Promise((resolve) => socket.write(text, () => resolve()));

  it('keep their own part of a response, whatever others read in between', async () => {
    const both = request();
    const [first, second] = await Promise.all([RawConnection.open(port), RawConnection.open(port)]);
    const answers = Promise.all([first.get('/a', ''), second.get('/b', '')]);
    const [one, other] = await both;
    const response = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const texts = [response('a'.repeat(300)), response('b'.repeat(300))] as const;
    for (let at = 0; at < texts[0].length; at += 60) {
      await written(one, texts[0].slice(at, at + 60));
      await written(other, texts[1].slice(at, at + 60));
    }
    const bodies = (await answers).map(({ status, body }) => `${status} ${body}`).sort();
    expect(bodies).toEqual([`200 ${'a'.repeat(300)}`, `200 ${'b'.repeat(300)}`]);
    first.close();
    second.close();
  });

  it('reject a request whose connection the server closes', async () => {
    const connection = await RawConnection.open(port);
    const answer = connection.get('/', '');
    answer.catch(() => {});
    await expect.poll(() => sockets.length).toBe(1);
    sockets[0]?.end();
    await expect(answer).rejects.toThrow('closed');
  });
});

describe('packets of a load', () => {
  it('are read as they were written, in parts of any size, although the buffer of a read is used again', slow, () => {
    const payloads = ['', '{"state":"é 💡"}', 'x'.repeat(200), 'y'.repeat(20_000)];
    const bytes = Buffer.from(payloads.map((payload, n) => publishText(n + 1, 't/1', payload)).join(''), 'latin1');
    for (const size of [1, 7, 1_000, bytes.length]) {
      const buffer = Buffer.alloc(size);
      const found: { id: number; payload: string }[] = [];
      const read = packetReader((type, _flags, body) => {
        expect(type).toBe(PUBLISH);
        found.push(readPublish(body));
      });
      for (let at = 0; at < bytes.length; at += size) read(buffer.subarray(0, bytes.copy(buffer, 0, at, at + size)));
      expect(found).toEqual(payloads.map((payload, n) => ({ id: n + 1, payload })));
    }
  });
});
