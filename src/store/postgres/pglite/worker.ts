import { setFlagsFromString } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/*
 * Entry of PGlite's worker thread: a call blocks its thread for as long as the statement runs (37–60 ms for 2,000
 * rows). Receives messages of the PostgreSQL wire protocol as bytes, and sends the responses.
 */

/** To the worker. `session` is returned with the response; after `close` the thread ends. */
export type ToWorker = { session: number; bytes: Uint8Array<ArrayBuffer> } | { close: true };
/**
 * From the worker: `ready` once, then a response to each message, in order. After `failed` the worker cannot be used.
 */
export type FromWorker = { ready: true } | { session: number; bytes: Uint8Array<ArrayBuffer> } | { failed: string };

const port = parentPort;
if (port === null) throw new Error('this module must run in a worker thread');

const post = (message: FromWorker): void =>
  port.postMessage(message, 'bytes' in message ? [message.bytes.buffer] : undefined);
const fail = (error: unknown): void => post({ failed: error instanceof Error ? error.message : String(error) });

function serve(db: PGlite): void {
  let queue: Promise<void> = Promise.resolve();
  port?.on('message', (message: ToWorker) => {
    if ('close' in message) queue.then(() => db.close()).then(() => process.exit(), fail);
    else queue = queue.then(() => answer(db, message)).catch(fail);
  });
  post({ ready: true });
}

/**
 * Not `execProtocolRawSync`: it parses each response as well, and keeps the result as long as the thread lives. The
 * stream passes views of PGlite's own buffer, so each chunk is copied.
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

/** PostgreSQL's default is 128 MB, which an idle database would touch and keep; the system caches the files anyway. */
const SHARED_BUFFERS = '16MB';

// V8's optimising compiler spends a second of processor time and 50 MB on PGlite's code and makes the small statements of
// the service no faster (docs/decisions/0072). The flags are read when the code is compiled; they hold for the process.
for (const flag of ['--liftoff-only', '--no-wasm-tier-up', '--no-wasm-dynamic-tiering']) setFlagsFromString(flag);

const { dataDir } = workerData as { dataDir: string };
const startParams = [...PGlite.defaultStartParams, '-c', `shared_buffers=${SHARED_BUFFERS}`];
PGlite.create({ dataDir, startParams }).then(serve, fail);
