import { randomUUID } from 'node:crypto';
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js';
import type { HttpExchange } from '../shared/http-exchange.ts';
import { EventStream } from './event-stream.ts';
import { McpTransport, type RequestContext } from './mcp-transport.ts';

export const MESSAGES_PATH = '/mcp/messages';

/** HTTP+SSE, the transport of MCP's first revision: all answers are sent on the event stream that the client opened. */
export class LegacySseTransport extends McpTransport {
  readonly sessionId = randomUUID();
  readonly #stream: EventStream;
  readonly #pending = new Set<RequestId>();
  #closed = false;

  /** `prefix` is the path prefix of the public URL, usually empty. */
  constructor(exchange: HttpExchange, prefix: string) {
    super();
    this.#stream = new EventStream(exchange);
    this.#stream.sendEvent('endpoint', `${prefix}${MESSAGES_PATH}?session_id=${this.sessionId}`);
    exchange.response.on('drain', () => this.ondrain?.());
    exchange.response.on('close', () => void this.close());
  }

  get pending(): number {
    return this.#pending.size;
  }

  get closed(): boolean {
    return this.#closed;
  }

  isPending(id: RequestId): boolean {
    return this.#pending.has(id);
  }

  post(messages: readonly JSONRPCMessage[], contexts: readonly RequestContext[]): void {
    messages.forEach((message, n) => {
      if ('method' in message && 'id' in message) this.#pending.add(message.id);
      this.deliver(message, contexts[n] as RequestContext);
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    // Drops the answer of a cancelled request.
    if (!('method' in message) && message.id !== undefined && !this.#pending.delete(message.id)) return;
    if (!this.#stream.isOpen) throw new Error('the event stream is closed');
    this.#stream.sendMessage(message);
  }

  trySend(message: JSONRPCMessage): boolean {
    if (!this.#stream.isOpen || this.#stream.isBusy) return false;
    this.#stream.sendMessage(message);
    return true;
  }

  keepAlive(): void {
    this.#stream.keepAlive();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stream.end();
    this.onclose?.();
  }

  protected override onCancelled(id: RequestId): void {
    this.#pending.delete(id);
  }
}
