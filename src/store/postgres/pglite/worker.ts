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
  port?.on('message', (message: ToWorker) => {
    if ('close' in message) {
      db.close().then(() => process.exit(), fail);
      return;
    }
    try {
      // A copy: an answer may be a view of PGlite's own buffer, which must stay here.
      post({ session: message.session, bytes: new Uint8Array(db.execProtocolRawSync(message.bytes)) });
    } catch (error) {
      fail(error);
    }
  });
  post({ ready: true });
}

const { dataDir } = workerData as { dataDir: string };
PGlite.create({ dataDir }).then(serve, fail);
