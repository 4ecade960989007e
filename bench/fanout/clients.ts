import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { WebSocket } from 'ws';

/*
 * WebSocket clients as light as they can be: they count the frames that reach them and parse none, so that the
 * measured process is the other one. One more client parses what it gets, for the delays.
 */

/** All of these within that time, by the clock that both processes read. */
export interface ExpectedFrames {
  frames: number;
  until: number;
}

export interface MissedFrames {
  /** Clients that lack something. */
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

/** Opens one; resolves at the answer to its ping: it was let in. */
function open(port: number): Promise<Client> {
  return new Promise((resolve, reject) => {
    const client: Client = { frames: 0 };
    const socket = connect({ port, host: '127.0.0.1' });
    let greeted = false;
    /** Bytes of the present frame that are still to come, and the head of one that was cut. */
    let left = 0;
    let head: Buffer = Buffer.alloc(0);
    socket.on('error', reject);
    socket.on('close', () => {
      console.error('a client was closed');
      process.exit(1);
    });
    const count = (chunk: Buffer) => {
      let at = Math.min(left, chunk.length);
      left -= at;
      while (at < chunk.length) {
        const rest = head.length === 0 ? chunk.subarray(at) : Buffer.concat([head, chunk.subarray(at)]);
        const size = frameSize(rest);
        if (size === null) {
          head = rest;
          return;
        }
        client.frames++;
        const here = rest.length - (chunk.length - at);
        head = Buffer.alloc(0);
        const end = at - here + size;
        left = Math.max(0, end - chunk.length);
        at = Math.min(end, chunk.length);
      }
    };
    socket.on('data', (chunk) => {
      if (greeted) return count(chunk);
      const end = chunk.indexOf('\r\n\r\n');
      if (end === -1) throw new Error('half a handshake');
      greeted = true;
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

/** Of a frame's head and payload, or null while the head is not whole. */
function frameSize(bytes: Buffer): number | null {
  if (bytes.length < 2) return null;
  const short = (bytes[1] as number) & 0x7f;
  if (short < 126) return 2 + short;
  if (short === 126) return bytes.length < 4 ? null : 4 + bytes.readUInt16BE(2);
  return bytes.length < 10 ? null : 10 + Number(bytes.readBigUInt64BE(2));
}

async function waitForFrames({ frames, until }: ExpectedFrames): Promise<MissedFrames> {
  for (;;) {
    const lacking = clients.filter((client) => client.frames < frames);
    const late = Date.now() > until;
    if (lacking.length === 0 || late) return { clients: lacking.length, late };
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Once nothing more arrives: the next run counts from nothing. */
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
process.on('message', async (asked: ClientMessage) => {
  if (asked.open) {
    const { port, clients: count } = asked.open;
    while (clients.length < count) {
      const batch = Array.from({ length: Math.min(50, count - clients.length) }, () => open(port));
      clients.push(...(await Promise.all(batch)));
    }
    await openProbe(port);
    await waitUntilQuiet();
    process.send?.({ opened: true });
  }
  if (asked.expect) process.send?.({ missed: await waitForFrames(asked.expect) });
  if (asked.delays) {
    process.send?.({ delays });
    delays = [];
  }
  if (asked.settle) {
    await waitUntilQuiet();
    process.send?.({ settled: true });
  }
});
process.on('disconnect', () => process.exit(0));
