import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { standardHeaders } from '../shared/http.ts';
import { API_POLICY, type HttpExchange } from '../shared/http-exchange.ts';

/** Bytes buffered for one client. A client that reads more slowly is disconnected. */
const MAX_WAITING = 4 * 1024 * 1024;
/** With more buffered bytes the stream is busy, and notifications are delayed. */
const BUSY_BYTES = 64 * 1024;

/** A response that is a stream of server-sent events. */
export class EventStream {
  readonly #exchange: HttpExchange;
  #ended = false;

  constructor(exchange: HttpExchange, headers: readonly string[] = []) {
    this.#exchange = exchange;
    const { response, requestId, rateLimitHeaders } = exchange;
    response.on('error', () => {});
    response.writeHead(200, [
      ...standardHeaders(requestId),
      ...['Content-Security-Policy', API_POLICY, 'Content-Type', 'text/event-stream'],
      // Keeps proxies from buffering or transforming the stream.
      ...['Cache-Control', 'no-store, no-transform', 'X-Accel-Buffering', 'no'],
      ...rateLimitHeaders,
      ...headers,
    ]);
    response.flushHeaders();
  }

  get isOpen(): boolean {
    return !this.#ended && !this.#exchange.response.destroyed;
  }

  get isBusy(): boolean {
    return this.#exchange.response.writableLength > BUSY_BYTES;
  }

  sendMessage(message: JSONRPCMessage): void {
    this.sendEvent('message', JSON.stringify(message));
  }

  sendEvent(name: string, data: string): void {
    this.#write(`event: ${name}\ndata: ${data}\n\n`);
  }

  /** An SSE comment, so that proxies keep the connection open. */
  keepAlive(): void {
    if (!this.isBusy) this.#write(': \n\n');
  }

  end(): void {
    if (this.isOpen) this.#exchange.response.end();
    this.#ended = true;
  }

  #write(text: string): void {
    const { response } = this.#exchange;
    if (!this.isOpen) return;
    response.write(text);
    if (response.writableLength > MAX_WAITING) response.destroy();
  }
}
