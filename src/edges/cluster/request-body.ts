import type { ClientRequest, IncomingMessage } from 'node:http';

/** Longest body that is kept to be sent to another node. */
const MAX_COPY_BYTES = 64 * 1024;

/**
 * The body of a request on its way to another node, with back-pressure. The part that was read is kept while it is at
 * most 64 KiB, so that the request can be sent again.
 */
export class RequestBody {
  readonly #request: IncomingMessage;
  #copy: Buffer[] | null = [];
  #copied = 0;
  #target: ClientRequest | null = null;

  constructor(request: IncomingMessage) {
    this.#request = request;
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

  readonly #onData = (chunk: Buffer): void => {
    const target = this.#target;
    this.#keep(chunk);
    if (target === null || target.write(chunk)) return;
    this.#request.pause();
    target.once('drain', () => this.#target === target && this.#request.resume());
  };

  readonly #onEnd = (): void => void this.#target?.end();

  #keep(chunk: Buffer): void {
    this.#copied += chunk.length;
    if (this.#copied > MAX_COPY_BYTES) this.#copy = null;
    else this.#copy?.push(chunk);
  }
}
