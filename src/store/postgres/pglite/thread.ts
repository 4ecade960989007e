import type { Duplex } from 'node:stream';
import { Worker } from 'node:worker_threads';
import { WireStream } from './wire-stream.ts';
import type { FromWorker, ToWorker } from './worker.ts';

// Works in the sources and in the output of `tsc`.
const entry = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url);

/**
 * PGlite in a worker thread, with its single session. A thread that dies (out of memory, disk full) is replaced at the
 * next connection, and PGlite recovers its files as after a crash.
 */
export class PgliteThread {
  readonly #dataDir: string;
  /** Resolves when PGlite answers, rejects when it cannot start. */
  #worker: Promise<Worker>;
  #dead = false;
  /** Resolves when the previous thread has ended: two must never have the files open. */
  #gone: Promise<unknown> = Promise.resolve();
  #session = 0;
  #stream: WireStream | null = null;

  /** `dataDir` is a folder, or `memory://`. */
  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#worker = this.#start();
    // `ready` may be called later.
    this.#worker.catch(() => {});
  }

  /** The first start of a folder without files takes 2–11 s, others half a second. Rejects with PGlite's error. */
  async ready(): Promise<void> {
    await this.#worker;
  }

  /** Stream for a `pg` client; an earlier stream receives nothing from then on. */
  connect(): Duplex {
    if (this.#dead) this.#worker = this.#start();
    const worker = this.#worker;
    this.#session += 1;
    const session = this.#session;
    const stream = new WireStream((bytes) => {
      worker.then(
        (to) => to.postMessage({ session, bytes } satisfies ToWorker, [bytes.buffer]),
        (error) => stream.destroy(error),
      );
    });
    this.#stream = stream;
    return stream;
  }

  /** Used bytes of the thread's JavaScript heap, including garbage, without the database's own memory. */
  async heapBytes(): Promise<number> {
    return (await (await this.#worker).getHeapStatistics()).used_heap_size;
  }

  /** Shuts PGlite down, which writes a checkpoint. */
  async close(): Promise<void> {
    const worker = await this.#worker.catch(() => null);
    if (worker && !this.#dead) {
      const exit = new Promise((resolve) => worker.once('exit', resolve));
      worker.postMessage({ close: true } satisfies ToWorker);
      await exit;
    }
    await this.#gone;
  }

  /** Terminates the thread without a shutdown. */
  async kill(): Promise<void> {
    await (await this.#worker.catch(() => null))?.terminate();
    await this.#gone;
  }

  async #start(): Promise<Worker> {
    this.#dead = false;
    await this.#gone;
    return new Promise((resolve, reject) => {
      const worker = new Worker(entry, { workerData: { dataDir: this.#dataDir } });
      let ended = false;
      const die = (error: Error): void => {
        if (ended) return;
        ended = true;
        this.#dead = true;
        this.#gone = worker.terminate();
        this.#stream?.destroy(error);
        reject(error);
      };
      worker.on('error', die);
      worker.on('exit', () => die(new Error('the embedded database thread ended')));
      worker.on('message', (message: FromWorker) => {
        if ('bytes' in message) {
          if (message.session === this.#session) this.#stream?.receive(message.bytes);
        } else if ('failed' in message) die(new Error(message.failed));
        else resolve(worker);
      });
    });
  }
}
