import type { ClientRequest, IncomingMessage } from 'node:http';

/** Longest body that is kept to be sent to another node. */
const MAX_COPY_BYTES = 64 * 1024;
/** All bodies that a process keeps at a time; above it, further ones are not kept. */
const MAX_TOTAL_BYTES = 32 * 1024 * 1024;

/** The memory for the bodies that a process keeps. */
export class BodyMemory {
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number = MAX_TOTAL_BYTES) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False if there is not enough memory left. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * The body of a request on its way to another node, with back-pressure. The part that was read is kept while it is at
 * most 64 KiB, so that the request can be sent again.
 */
export class RequestBody {
  readonly #request: IncomingMessage;
  readonly #memory: BodyMemory;
  #copy: Buffer[] | null = [];
  #copied = 0;
  #target: ClientRequest | null = null;

  constructor(request: IncomingMessage, memory: BodyMemory) {
    this.#request = request;
    this.#memory = memory;
  }

  /** Whether all that was read can be sent again. */
  get isReplayable(): boolean {
    return this.#copy !== null;
  }

  get isEmpty(): boolean {
    const { headers } = this.#request;
    const length = headers['content-length'];
    return headers['transfer-encoding'] === undefined && (length === undefined || length === '0');
  }

  /** Sends the whole body to `target`, to which no other one was sent at the same time, and ends it. */
  sendTo(target: ClientRequest): void {
    const request = this.#request;
    if (this.isEmpty) return void target.end();
    this.#target = target;
    for (const chunk of this.#copy ?? []) target.write(chunk);
    if (request.readableEnded) return void target.end();
    request.on('data', this.#onData);
    request.on('end', this.#onEnd);
    // Without data to write, Node would not send the headers.
    if (request.readableLength === 0) target.flushHeaders();
    request.resume();
  }

  /** Stops sending; the rest of the body stays unread. */
  stop(): void {
    this.#target = null;
    this.#request.off('data', this.#onData);
    this.#request.off('end', this.#onEnd);
    this.#request.pause();
  }

  /** Ends the copy: the request is not sent again. */
  forget(): void {
    if (this.#copy !== null) this.#memory.give(this.#copied);
    this.#copy = null;
  }

  readonly #onData = (chunk: Buffer): void => {
    const target = this.#target;
    this.#keep(chunk);
    if (target === null || target.write(chunk)) return;
    this.#request.pause();
    target.once('drain', () => this.#target === target && this.#request.resume());
  };

  readonly #onEnd = (): void => void this.#target?.end();

  #keep(chunk: Buffer): void {
    if (this.#copy === null) return;
    const fits = this.#copied + chunk.length <= MAX_COPY_BYTES && this.#memory.take(chunk.length);
    if (!fits) return void this.forget();
    this.#copied += chunk.length;
    this.#copy.push(chunk);
  }
}
