import { randomUUID } from 'node:crypto';
import type { TransportSendOptions } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, JSONRPCRequest, RequestId } from '@modelcontextprotocol/sdk/types.js';
import { type HttpExchange, send, sendJson } from '../shared/http-exchange.ts';
import { EventStream } from './event-stream.ts';
import { McpTransport, type RequestContext } from './mcp-transport.ts';

/** The pending response to one POST, until all of its requests are answered. */
interface PostResponse {
  exchange: HttpExchange;
  /** Internal id → the client's id of each unanswered request. */
  clientIds: Map<RequestId, RequestId>;
  answers: JSONRPCMessage[];
  /** Opened when the server sends a message before the answer. Otherwise the response is plain JSON. */
  stream: EventStream | null;
  batch: boolean;
}

/**
 * The Streamable HTTP transport. Streams are not resumable: if a client disconnects, its requests continue, and it can
 * read the outcome by `plan_id` or `command_id`.
 */
export class StreamableHttpTransport extends McpTransport {
  readonly sessionId: string | undefined;
  readonly #replies = new Map<RequestId, PostResponse>();
  /** The event stream opened with GET, for messages that belong to no request. */
  #stream: EventStream | null = null;
  #closed = false;
  #lastId = 0;

  /** `session`: the transport of one session. Otherwise one transport shared by all requests without a session. */
  constructor({ session }: { session: boolean }) {
    super();
    this.sessionId = session ? randomUUID() : undefined;
  }

  get pending(): number {
    return this.#replies.size;
  }

  /** True while a GET event stream is open: it keeps the session alive without requests. */
  get hasEventStream(): boolean {
    return this.#stream?.isOpen === true;
  }

  get closed(): boolean {
    return this.#closed;
  }

  isPending(id: RequestId): boolean {
    return this.#replies.has(id);
  }

  /** Delivers the messages of one POST. `contexts` has the context of each message. */
  post(
    exchange: HttpExchange,
    messages: readonly JSONRPCMessage[],
    contexts: readonly RequestContext[],
    batch: boolean,
  ): void {
    const delivered = this.sessionId === undefined ? this.#withInternalIds(messages) : messages;
    const clientIds = new Map<RequestId, RequestId>();
    const reply: PostResponse = { exchange, clientIds, answers: [], stream: null, batch };
    delivered.forEach((message, n) => {
      if (message === null || !isRequest(message)) return;
      clientIds.set(message.id, (messages[n] as JSONRPCRequest).id);
      this.#replies.set(message.id, reply);
    });
    if (clientIds.size === 0) send(exchange, 202, null, this.#headers());
    else exchange.response.on('error', () => {});
    delivered.forEach((message, n) => {
      if (message !== null) this.deliver(message, contexts[n] as RequestContext);
    });
  }

  /**
   * On the shared transport every request gets an internal id, so that the ids of different clients cannot collide.
   * Other messages refer to another POST, which does not exist without a session: they are dropped.
   */
  #withInternalIds(messages: readonly JSONRPCMessage[]): (JSONRPCMessage | null)[] {
    return messages.map((message) => (isRequest(message) ? { ...message, id: ++this.#lastId } : null));
  }

  /** Opens the GET event stream. A new one replaces the previous one. */
  openEventStream(exchange: HttpExchange): void {
    this.#stream?.end();
    const stream = new EventStream(exchange, this.#headers());
    this.#stream = stream;
    exchange.response.on('close', () => {
      if (this.#stream === stream) this.#stream = null;
    });
    exchange.response.on('drain', () => this.ondrain?.());
    stream.keepAlive();
  }

  /** Closes the GET event stream. The client may open it again with a valid credential. */
  closeEventStream(): void {
    this.#stream?.end();
    this.#stream = null;
  }

  async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('result' in message || 'error' in message) {
      if (message.id !== undefined) this.#answer(message.id, message);
      return;
    }
    const reply = options?.relatedRequestId === undefined ? null : this.#replies.get(options.relatedRequestId);
    if (reply === null) {
      if (!this.trySend(message) && 'id' in message) throw new Error('no open event stream');
      return;
    }
    const stream = reply === undefined ? null : this.#streamOf(reply);
    if (stream === null && 'id' in message) throw new Error('no open event stream');
    stream?.sendMessage(message);
  }

  trySend(message: JSONRPCMessage): boolean {
    if (this.#stream === null || !this.#stream.isOpen || this.#stream.isBusy) return false;
    this.#stream.sendMessage(message);
    return true;
  }

  keepAlive(): void {
    this.#stream?.keepAlive();
    for (const { stream } of this.#replies.values()) stream?.keepAlive();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stream?.end();
    for (const reply of new Set(this.#replies.values())) this.#end(reply);
    this.#replies.clear();
    this.onclose?.();
  }

  protected override onCancelled(id: RequestId): void {
    this.#answer(id, null);
  }

  /** A null `message` drops the request without an answer: it was cancelled. */
  #answer(id: RequestId, message: JSONRPCMessage | null): void {
    const reply = this.#replies.get(id);
    if (reply === undefined) return;
    this.#replies.delete(id);
    const answer = message === null ? null : { ...message, id: reply.clientIds.get(id) as RequestId };
    reply.clientIds.delete(id);
    if (answer !== null && reply.stream !== null) reply.stream.sendMessage(answer as JSONRPCMessage);
    else if (answer !== null) reply.answers.push(answer as JSONRPCMessage);
    if (reply.clientIds.size === 0) this.#end(reply);
  }

  #end({ exchange, answers, stream, batch }: PostResponse): void {
    if (stream !== null) stream.end();
    else if (answers.length === 0) new EventStream(exchange, this.#headers()).end();
    else sendJson(exchange, 200, batch ? answers : answers[0], this.#headers());
  }

  /** Null if the client disconnected or does not accept an event stream. */
  #streamOf(reply: PostResponse): EventStream | null {
    const { response, request } = reply.exchange;
    if (reply.stream !== null) return reply.stream.isOpen ? reply.stream : null;
    if (response.destroyed || response.headersSent || !acceptsEventStream(request.headers.accept)) return null;
    reply.stream = new EventStream(reply.exchange, this.#headers());
    for (const answer of reply.answers.splice(0)) reply.stream.sendMessage(answer);
    return reply.stream;
  }

  #headers(): string[] {
    return this.sessionId === undefined ? [] : ['Mcp-Session-Id', this.sessionId];
  }
}

const isRequest = (message: JSONRPCMessage): message is JSONRPCRequest => 'method' in message && 'id' in message;

const acceptsEventStream = (accept: string | undefined): boolean =>
  accept === undefined || /text\/event-stream|text\/\*|\*\/\*/i.test(accept);
