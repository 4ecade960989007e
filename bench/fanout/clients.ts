import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { WebSocket } from 'ws';

/*
 * Minimal WebSocket clients: they count frames without parsing them, so that the server's process is the one that is
 * measured. One additional client parses its messages to measure delays.
 */

/** Expected number of frames per client, and the deadline, by the clock that both processes read. */
export interface ExpectedFrames {
  frames: number;
  until: number;
}

export interface MissedFrames {
  /** Number of clients that miss frames. */
  clients: number;
  late: boolean;
}

interface Client {
  frames: number;
}

const clients: Client[] = [];
/** Milliseconds from each update to its arrival, by the clock that both processes read. */
let delays: number[] = [];

function openProbe(port: number): Promise<void> {
  const probe = new WebSocket(`ws://127.0.0.1:${port}/ws/state?token=bench`);
  probe.on('message', (data) => {
    const { timestamp } = JSON.parse(String(data)) as { timestamp?: number };
    if (timestamp !== undefined) delays.push(Date.now() - timestamp);
  });
  return new Promise((resolve, reject) => {
    probe.once('open', resolve);
    probe.once('error', reject);
  });
}

const PING = Buffer.concat([Buffer.from([0x81, 0x84, 0, 0, 0, 0]), Buffer.from('ping')]);

/** Opens a client; resolves at the response to its ping, after authentication. */
function open(port: number): Promise<Client> {
  return new Promise((resolve, reject) => {
    const client: Client = { frames: 0 };
    const socket = connect({ port, host: '127.0.0.1' });
    let upgraded = false;
    /** Remaining bytes of the current frame, and the beginning of an incomplete header. */
    let left = 0;
    let header: Buffer = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('close', () => {
      console.error('a client connection was closed');
      process.exit(1);
    });
    const count = (chunk: Buffer) => {
      let at = Math.min(left, chunk.length);
      left -= at;
      while (at < chunk.length) {
        const rest = header.length === 0 ? chunk.subarray(at) : Buffer.concat([header, chunk.subarray(at)]);
        const size = frameSize(rest);
        if (size === null) {
          header = rest;
          return;
        }
        client.frames++;
        const here = rest.length - (chunk.length - at);
        header = Buffer.alloc(0);
        const end = at - here + size;
        left = Math.max(0, end - chunk.length);
        at = Math.min(end, chunk.length);
      }
    };
    socket.on('data', (chunk) => {
      if (upgraded) return count(chunk);
      const end = chunk.indexOf('\r\n\r\n');
      if (end === -1) throw new Error('incomplete handshake response');
      upgraded = true;
      count(chunk.subarray(end + 4));
      socket.write(PING);
      const wait = setInterval(() => {
        if (client.frames === 0) return;
        clearInterval(wait);
        resolve(client);
      }, 5);
    });
    socket.write(
      `GET /ws/state?token=bench HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
    );
  });
}

/** Size of a frame's header and payload; null while the header is incomplete. */
function frameSize(bytes: Buffer): number | null {
  if (bytes.length < 2) return null;
  const short = (bytes[1] as number) & 0x7f;
  if (short < 126) return 2 + short;
  if (short === 126) return bytes.length < 4 ? null : 4 + bytes.readUInt16BE(2);
  return bytes.length < 10 ? null : 10 + Number(bytes.readBigUInt64BE(2));
}

async function waitForFrames({ frames, until }: ExpectedFrames): Promise<MissedFrames> {
  for (;;) {
    const incomplete = clients.filter((client) => client.frames < frames);
    const late = Date.now() > until;
    if (incomplete.length === 0 || late) return { clients: incomplete.length, late };
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Resolves when no more frames arrive, and resets the counters for the next run. */
async function waitUntilQuiet(): Promise<void> {
  const total = () => clients.reduce((sum, { frames }) => sum + frames, 0);
  for (let before = -1; before !== total(); ) {
    before = total();
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  for (const client of clients) client.frames = 0;
}

type ClientMessage = {
  open?: { port: number; clients: number };
  expect?: ExpectedFrames;
  settle?: true;
  delays?: true;
};
process.on('message', async (message: ClientMessage) => {
  if (message.open) {
    const { port, clients: count } = message.open;
    while (clients.length < count) {
      const batch = Array.from({ length: Math.min(50, count - clients.length) }, () => open(port));
      clients.push(...(await Promise.all(batch)));
    }
    await openProbe(port);
    await waitUntilQuiet();
    process.send?.({ opened: true });
  }
  if (message.expect) process.send?.({ missed: await waitForFrames(message.expect) });
  if (message.delays) {
    process.send?.({ delays });
    delays = [];
  }
  if (message.settle) {
    await waitUntilQuiet();
    process.send?.({ settled: true });
  }
});
process.on('disconnect', () => process.exit(0));
