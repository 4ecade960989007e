import { createServer as createHttp2Server } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { unlimitedLease } from '../../../src/domain/lease.ts';
import { Dialler } from '../../../src/edges/grpc/dialler.ts';
import { defaultSidecarLimits } from '../../../src/edges/grpc/sidecar-limits.ts';
import { eventually } from '../../support/clock.ts';
import { freePort } from '../../support/programs.ts';
import { startSidecar } from '../../support/sidecar.ts';
import { service } from './edge-harness.ts';

describe('the dialler', () => {
  it('retries until the sidecar listens, and is connected then', async () => {
    const { edge, sidecar, lines } = await service();
    await eventually(() => lines.some(({ message }) => message.includes('sidecar unreachable')));
    expect(edge.connected()).toBe(false);
    await sidecar();
    await eventually(() => edge.connected());
  });

  it('logs nothing about a sidecar that is starting, and dials it when it has an address', async () => {
    const lines: string[] = [];
    const send = (_: object, message: string) => void lines.push(message);
    let address: string | null = null;
    let requested = 0;
    const dialler = new Dialler({
      address() {
        requested += 1;
        return address;
      },
      limits: { ...defaultSidecarLimits, backoff: { firstMs: 1, maxMs: 2 } },
      lease: unlimitedLease,
      log: { debug: send, info: send, warn: send, error: send },
      handleStream: () => ({ onProposal() {}, onClose() {} }),
    });
    onTestFinished(() => dialler.close());
    await eventually(() => requested > 8);
    expect(lines).toEqual([]);
    const port = await freePort();
    const sidecar = await startSidecar({ port });
    onTestFinished(() => sidecar.kill());
    address = `127.0.0.1:${port}`;
    dialler.retryNow();
    await eventually(() => dialler.connected());
    expect(lines).toEqual(['sidecar connected']);
  });

  it('redials when the sidecar is killed, ends the stream, or fails', async () => {
    const { edge, sidecar, counts } = await service();
    const first = await sidecar();
    await eventually(() => edge.connected());
    first.kill();
    await eventually(() => !edge.connected());
    const second = await sidecar();
    await eventually(() => edge.connected());
    second.stream.end();
    await second.waitForStream(2);
    await eventually(() => edge.connected());
    second.stream.fail(13, 'out of order');
    await second.waitForStream(3);
    await eventually(() => edge.connected());
    expect(counts.get('taken')).toBe(4);
    expect(counts.get('lost')).toBe(3);
  });

  it('counts a sidecar as connected before its first proposal', async () => {
    const { edge, sidecar } = await service();
    await sidecar({ headers: false });
    await eventually(() => edge.connected());
  });

  it('does not count a server without this method as a sidecar', async () => {
    const { Server, ServerCredentials } = await import('@grpc/grpc-js');
    const { edge, address, lines } = await service();
    const server = new Server();
    await new Promise((resolve) => server.bindAsync(address, ServerCredentials.createInsecure(), resolve));
    await eventually(() => lines.some(({ fields }) => JSON.stringify(fields).includes('UNIMPLEMENTED')));
    expect(edge.connected()).toBe(false);
    server.forceShutdown();
  });

  it('gives up a listener that does not respond, and one with another protocol', async () => {
    const { edge, address, lines } = await service({ connectTimeoutMs: 100 });
    const sent = (why: string) => lines.some(({ fields }) => (fields as { why?: string }).why?.includes(why));
    let answer = '';
    const sockets = await listen(
      createServer((socket) => {
        socket.on('error', () => {}).resume();
        if (answer !== '') socket.write(answer);
      }),
      address,
    );
    await eventually(() => sent('connection timed out'));
    answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
    await eventually(() => sent('connection failed'));
    expect(edge.connected()).toBe(false);
    await eventually(() => sockets.filter((socket) => !socket.destroyed).length <= 1);
  });

  it('limits the decompressed size of a message', async () => {
    const { edge, address, lines, counts } = await service();
    const folded = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    const head = Buffer.from([1, 0, 0, 0, 0]);
    head.writeUInt32BE(folded.length, 1);
    const server = createHttp2Server();
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-encoding': 'gzip' });
      stream.write(Buffer.concat([head, folded]));
    });
    await listen(server, address);
    const before = process.memoryUsage().arrayBuffers;
    await eventually(() => lines.some(({ fields }) => JSON.stringify(fields).includes('RESOURCE_EXHAUSTED')));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * 1024 * 1024);
    expect([...counts.keys()].filter((what) => what.startsWith('heard'))).toEqual([]);
    edge.close();
  });

  it('disconnects when it is closed, and does not dial again', async () => {
    const { edge, sidecar } = await service();
    const there = await sidecar();
    await eventually(() => edge.connected());
    edge.close();
    await eventually(() => there.stream.ended);
    expect(edge.connected()).toBe(false);
    edge.retryNow();
    await new Promise((resolve) => setImmediate(resolve));
    expect(there.streams).toHaveLength(1);
  });

  it('truncates the last error of a sidecar in the log', async () => {
    const { edge, sidecar, lines } = await service();
    const there = await sidecar();
    await eventually(() => edge.connected());
    there.stream.fail(13, `\u001b[31m${'x'.repeat(5_000)}`);
    const { fields } = await eventually(() => lines.find(({ message }) => message === 'sidecar disconnected'));
    const { why } = fields as { why: string };
    expect(why.length).toBeLessThanOrEqual(200);
    expect(why).not.toContain('\u001b');
  });
});

/** Listens until the end of the test; returns the connections so far. */
async function listen(server: Pick<Server, 'on' | 'listen' | 'close'>, address: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => void sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(Number(address.split(':')[1]), '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}
