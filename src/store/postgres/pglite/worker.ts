import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/*
 * The entry of the thread that PGlite lives in: a call blocks its thread for as long as the statement runs (37–60 ms for
 * 2,000 rows). Bytes of PostgreSQL's own wire protocol go in, whole messages at a time, and the answers come out.
 */

/** To this thread. `session` comes back with the answer; after `close` the thread ends. */
export type ToWorker = { session: number; bytes: Uint8Array<ArrayBuffer> } | { close: true };
/** From it: `ready` once, then an answer to each message, in order. After a failure it is of no more use. */
export type FromWorker = { ready: true } | { session: number; bytes: Uint8Array<ArrayBuffer> } | { failed: string };

const port = parentPort;
if (port === null) throw new Error('this module is the entry of a thread');

const post = (message: FromWorker): void =>
  port.postMessage(message, 'bytes' in message ? [message.bytes.buffer] : undefined);
const fail = (error: unknown): void => post({ failed: error instanceof Error ? error.message : String(error) });

function serve(db: PGlite): void {
  let before: Promise<void> = Promise.resolve();
  port?.on('message', (message: ToWorker) => {
    if ('close' in message) before.then(() => db.close()).then(() => process.exit(), fail);
    else before = before.then(() => answer(db, message)).catch(fail);
  });
  post({ ready: true });
}

/**
 * Not by `execProtocolRawSync`: that parses each answer as well, and keeps what it parsed as long as the thread lives. What
 * the stream hands over is a view of PGlite's own buffer, so it is copied.
 */
async function answer(db: PGlite, { session, bytes }: { session: number; bytes: Uint8Array }): Promise<void> {
  const chunks: Uint8Array[] = [];
  await db.execProtocolRawStream(bytes, { syncToFs: false, onRawData: (chunk) => void chunks.push(chunk.slice()) });
  post({ session, bytes: joined(chunks) });
}

function joined(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

const { dataDir } = workerData as { dataDir: string };
PGlite.create({ dataDir }).then(serve, fail);
