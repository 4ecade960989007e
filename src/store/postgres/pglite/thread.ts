import { Duplex } from 'node:stream';
import { Worker } from 'node:worker_threads';
import type { FromWorker, ToWorker } from './worker.ts';

/** PGlite in a thread of its own. It has one session; `connect` gives the stream that a `pg` client speaks on. */
export interface PgliteThread {
  connect(): Duplex;
  /** Ends PGlite properly, which writes a checkpoint. */
  close(): Promise<void>;
}

// The same file serves from the sources and from what `tsc` built of them.
const entry = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

/** `dataDir` is a folder, or `memory://`. The first start of a folder takes 2–7 s, later ones half a second. */
export async function startPglite(dataDir: string): Promise<PgliteThread> {
  const worker = new Worker(entry, { workerData: { dataDir } });
  let stream: WireStream | null = null;
  let dead: Error | null = null;
  const die = (error: Error): void => {
    dead ??= error;
    stream?.destroy(dead);
  };
  worker.on('error', die);
  worker.on('exit', () => die(new Error('the thread of the embedded database has ended')));
  worker.on('message', (message: FromWorker) => {
    if ('bytes' in message) stream?.receive(message.bytes);
    else if ('failed' in message) die(new Error(message.failed));
  });
  await answer(worker, (message) => 'ready' in message);

  return {
    connect() {
      stream = new WireStream((message) =>
        worker.postMessage(message, 'bytes' in message ? [message.bytes.buffer] : []),
      );
      if (dead) stream.destroy(dead);
      return stream;
    },
    async close() {
      if (!dead) {
        const closed = answer(worker, (message) => 'closed' in message);
        worker.postMessage({ close: true } satisfies ToWorker);
        await closed.catch(() => {});
      }
      await worker.terminate();
    },
  };
}

/** Waits for a message; rejects when the thread fails or ends first. */
function answer(worker: Worker, expected: (message: FromWorker) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: FromWorker): void => {
      if (expected(message)) settle(resolve);
      else if ('failed' in message) settle(() => reject(new Error(message.failed)));
    };
    const onError = (error: Error): void => settle(() => reject(error));
    const onExit = (): void => settle(() => reject(new Error('the thread of the embedded database has ended')));
    const settle = (end: () => void): void => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit);
      end();
    };
    worker.on('message', onMessage).on('error', onError).on('exit', onExit);
  });
}

/** The part of a socket that `pg` uses. What it writes while corked goes over in one message. */
class WireStream extends Duplex {
  private readonly send: (message: ToWorker) => void;

  constructor(send: (message: ToWorker) => void) {
    super();
    this.send = send;
  }

  connect(): void {
    process.nextTick(() => this.emit('connect'));
  }
  setNoDelay(): void {}
  setKeepAlive(): void {}
  ref(): void {}
  unref(): void {}

  receive(bytes: Uint8Array<ArrayBuffer>): void {
    if (bytes.length > 0) this.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.pass([chunk], done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.pass(
      chunks.map(({ chunk }) => chunk),
      done,
    );
  }

  override _final(done: () => void): void {
    this.push(null);
    done();
  }

  /** A copy of their own, so that it can be handed over: pg writes from buffers that it uses again. */
  private pass(chunks: Buffer[], done: () => void): void {
    const bytes = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
    let at = 0;
    for (const chunk of chunks) {
      bytes.set(chunk, at);
      at += chunk.length;
    }
    this.send({ bytes });
    done();
  }
}
