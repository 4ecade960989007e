import { randomUUID } from 'node:crypto';
import type { TransportSendOptions } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, JSONRPCRequest, RequestId } from '@modelcontextprotocol/sdk/types.js';
import { type Exchange, send, sendJson } from '../shared/exchange.ts';
import { EventStream } from './event-stream.ts';
import { McpTransport, type RequestContext } from './mcp-transport.ts';

/** One POST with requests, until all of them are answered. */
interface PostResponse {
  exchange: Exchange;
  /** Not answered yet: what the client calls them, by our ids. */
  clientIds: Map<RequestId, RequestId>;
  answers: JSONRPCMessage[];
  /** An answer alone is JSON; whatever comes before it makes the answer a stream. */
  stream: EventStream | null;
  batch: boolean;
}

/**
 * Streamable HTTP. Nothing is kept for a client that went away in the middle of an answer: what it asked for goes on, and
 * handles (`plan_id`, `command_id`) say what became of it.
 */
export class StreamableHttpTransport extends McpTransport {
  readonly sessionId: string | undefined;
  readonly #replies = new Map<RequestId, PostResponse>();
  /** What the client reads beside its requests. */
  #stream: EventStream | null = null;
  #closed = false;
  #lastId = 0;

  /** `session`: the client comes back under an id of its own. Without, this is the wire of whoever comes, each for one POST. */
  constructor({ session }: { session: boolean }) {
    super();
    this.sessionId = session ? randomUUID() : undefined;
  }

  get pending(): number {
    return this.#replies.size;
  }

  /** Whether the session goes on without any request. */
  get hasEventStream(): boolean {
    return this.#stream?.isOpen === true;
  }

  get closed(): boolean {
    return this.#closed;
  }

  isPending(id: RequestId): boolean {
    return this.#replies.has(id);
  }

  /** The messages of one POST; `bearings` tells what each came with. */
  post(
    exchange: Exchange,
    messages: readonly JSONRPCMessage[],
    bearings: readonly RequestContext[],
    batch: boolean,
  ): void {
    const delivered = this.sessionId === undefined ? this.#renamed(messages) : messages;
    const waiting = new Map<RequestId, RequestId>();
    const reply: PostResponse = { exchange, clientIds: waiting, answers: [], stream: null, batch };
    delivered.forEach((message, n) => {
      if (message === null || !isRequest(message)) return;
      waiting.set(message.id, (messages[n] as JSONRPCRequest).id);
      this.#replies.set(message.id, reply);
    });
    if (waiting.size === 0) send(exchange, 202, null, this.#headers());
    else exchange.response.on('error', () => {});
    delivered.forEach((message, n) => {
      if (message !== null) this.deliver(message, bearings[n] as RequestContext);
    });
  }

  /**
   * Where many clients share the wire their ids are ours, so that none is another's. What is no request would be about one of
   * another POST: nobody's here.
   */
  #renamed(messages: readonly JSONRPCMessage[]): (JSONRPCMessage | null)[] {
    return messages.map((message) => (isRequest(message) ? { ...message, id: ++this.#lastId } : null));
  }

  /** Opens the stream beside the requests; a newer one takes the place of an older. */
  openEventStream(exchange: Exchange): void {
    this.#stream?.end();
    const stream = new EventStream(exchange, this.#headers());
    this.#stream = stream;
    exchange.response.on('close', () => {
      if (this.#stream === stream) this.#stream = null;
    });
    exchange.response.on('drain', () => this.ondrain?.());
    stream.keepAlive();
  }

  /** Ends what is read beside the requests; whoever may opens it again. */
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
      if (!this.trySend(message) && 'id' in message) throw new Error('nobody reads');
      return;
    }
    const stream = reply === undefined ? null : this.#streamOf(reply);
    if (stream === null && 'id' in message) throw new Error('nobody reads');
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

  /** Null: it is taken back, and gets no answer. */
  #answer(id: RequestId, message: JSONRPCMessage | null): void {
    const reply = this.#replies.get(id);
    if (reply === undefined) return;
    this.#replies.delete(id);
    const theirs = message === null ? null : { ...message, id: reply.clientIds.get(id) as RequestId };
    reply.clientIds.delete(id);
    if (theirs !== null && reply.stream !== null) reply.stream.sendMessage(theirs as JSONRPCMessage);
    else if (theirs !== null) reply.answers.push(theirs as JSONRPCMessage);
    if (reply.clientIds.size === 0) this.#end(reply);
  }

  #end({ exchange, answers, stream, batch }: PostResponse): void {
    if (stream !== null) stream.end();
    else if (answers.length === 0) new EventStream(exchange, this.#headers()).end();
    else sendJson(exchange, 200, batch ? answers : answers[0], this.#headers());
  }

  /** Null where the client is gone, or takes no stream. */
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
