import type { Transport, TransportSendOptions } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  type CallToolRequest,
  CallToolRequestSchema,
  type CallToolResult,
  type ClientRequest,
  CompleteRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  InitializeRequestSchema,
  type JSONRPCMessage,
  type JSONRPCRequest,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  type MessageExtraInfo,
  ReadResourceRequestSchema,
  type RequestId,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { ZodType } from 'zod';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { errorText, fieldErrors } from '../../domain/field-errors.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Caller } from '../../operations/operation.ts';
import { refusalError } from './resources.ts';

/** Context of a received message. */
export interface RequestContext {
  caller: Caller;
  /** Set if the message exceeds the rate limit: the request is answered with it. */
  refusal: Refusal | null;
  /** True if the client's protocol revision has structured content. Otherwise the text content has to be complete. */
  supportsStructuredContent: boolean;
}

export interface ToolCallRequest {
  id: RequestId;
  params: CallToolRequest['params'];
  context: RequestContext;
  /** Aborts when the client cancels the call, but not when its connection breaks. */
  cancelled: AbortSignal;
}

/** Keyed by the `authInfo` object that the SDK passes to request handlers. */
const requestContexts = new WeakMap<object, RequestContext>();

export function requestContextOf(authInfo: object | undefined): RequestContext {
  const found = authInfo === undefined ? undefined : requestContexts.get(authInfo);
  if (found === undefined) throw new Error('message has no request context');
  return found;
}

function messageExtraOf(context: RequestContext): MessageExtraInfo {
  const authInfo = { token: '', clientId: context.caller.principal.id, scopes: [] };
  requestContexts.set(authInfo, context);
  return { authInfo };
}

/**
 * Base class of the transports: passes the messages of a client to the SDK's protocol, tool calls directly to
 * `onToolCall`.
 */
export abstract class McpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void;
  /** Handles tool calls. They bypass the SDK, which validates each call and result six times. */
  onToolCall?: (request: ToolCallRequest) => Promise<CallToolResult>;
  /** The client has read the buffered data. */
  ondrain?: () => void;
  abstract readonly sessionId: string | undefined;
  /** The caller of the client's last response to a request of the server. */
  lastResponder: Caller | null = null;
  readonly #cancels = new Map<RequestId, AbortController>();

  sizes(): CollectionSizes {
    return { mcp_calls: this.#cancels.size, mcp_requests: this.pending };
  }

  async start(): Promise<void> {}
  abstract send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void>;
  abstract close(): Promise<void>;
  /** Number of unanswered requests. */
  abstract get pending(): number;
  /** Sends a message that belongs to no request. False if the stream is closed or busy. */
  abstract trySend(message: JSONRPCMessage): boolean;
  abstract keepAlive(): void;

  protected deliver(message: JSONRPCMessage, context: RequestContext): void {
    if ('method' in message && 'id' in message) {
      const reason = paramsError(message);
      if (reason !== null) {
        const error = { code: ErrorCode.InvalidParams, message: reason };
        this.send({ jsonrpc: '2.0', id: message.id, error }).catch((thrown: Error) => this.onerror?.(thrown));
        return;
      }
      if (message.method === 'tools/call') {
        this.#call(message, context);
        return;
      }
      if (context.refusal !== null) {
        const { code, message: text, data } = refusalError(context.refusal, message.params?.uri as string | undefined);
        const error = { code, message: text, data };
        this.send({ jsonrpc: '2.0', id: message.id, error }).catch((thrown: Error) => this.onerror?.(thrown));
        return;
      }
    }
    if (!('method' in message)) this.lastResponder = context.caller;
    if ('method' in message && message.method === 'notifications/cancelled') {
      const id = message.params?.requestId as RequestId | undefined;
      if (id !== undefined) {
        this.#cancels.get(id)?.abort();
        this.onCancelled(id);
      }
    }
    this.onmessage?.(message, messageExtraOf(context));
  }

  #call({ id, params }: JSONRPCRequest, context: RequestContext): void {
    const cancel = new AbortController();
    this.#cancels.set(id, cancel);
    const request = { id, params: params as CallToolRequest['params'], context, cancelled: cancel.signal };
    (this.onToolCall?.(request) ?? Promise.reject(new McpError(ErrorCode.MethodNotFound, 'Method not found')))
      .then(
        (result) => this.send({ jsonrpc: '2.0', id, result }),
        ({ code, message }: McpError) => this.send({ jsonrpc: '2.0', id, error: { code, message } }),
      )
      .catch((thrown: Error) => this.onerror?.(thrown))
      .finally(() => {
        if (this.#cancels.get(id) === cancel) this.#cancels.delete(id);
      });
  }

  /** The client cancelled the request; it gets no answer. */
  protected onCancelled(_id: RequestId): void {}
}

/** The methods with parameters. The service has no tasks. */
type ServedMethod = Exclude<ClientRequest['method'], 'ping' | `tasks/${string}`>;

/** Checked here because the SDK reports invalid params as an internal error. */
const requestSchemas: Readonly<Record<ServedMethod, ZodType>> = {
  initialize: InitializeRequestSchema,
  'tools/list': ListToolsRequestSchema,
  'tools/call': CallToolRequestSchema,
  'resources/list': ListResourcesRequestSchema,
  'resources/templates/list': ListResourceTemplatesRequestSchema,
  'resources/read': ReadResourceRequestSchema,
  'resources/subscribe': SubscribeRequestSchema,
  'resources/unsubscribe': UnsubscribeRequestSchema,
  'prompts/list': ListPromptsRequestSchema,
  'prompts/get': GetPromptRequestSchema,
  'completion/complete': CompleteRequestSchema,
  'logging/setLevel': SetLevelRequestSchema,
};

function paramsError(message: { method: string }): string | null {
  const parsed = Object.hasOwn(requestSchemas, message.method)
    ? requestSchemas[message.method as ServedMethod].safeParse(message, { error: errorText })
    : undefined;
  if (parsed === undefined || parsed.success) return null;
  const [error] = fieldErrors(parsed.error.issues);
  return `${error?.path ?? ''}: ${error?.message ?? 'is not valid'}`;
}
