import type { Transport, TransportSendOptions } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  type CallToolRequest,
  CallToolRequestSchema,
  type CallToolResult,
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
import type { Refusal } from '../../domain/refusals.ts';
import type { Caller } from '../../operations/operation.ts';

/** What a message came with. */
export interface RequestContext {
  caller: Caller;
  /** Why it is not to be answered otherwise: its rate. */
  refusal: Refusal | null;
  /** The client's revision of MCP has structured content, so that no text has to say all of it. */
  supportsStructuredContent: boolean;
}

/** A call of a tool. */
export interface ToolCallRequest {
  id: RequestId;
  params: CallToolRequest['params'];
  context: RequestContext;
  /** Aborts when the client takes the call back, and not when its connection breaks. */
  cancelled: AbortSignal;
}

/** As the SDK hands it to the handlers of requests. */
const requestContexts = new WeakMap<object, RequestContext>();

export function requestContextOf(authInfo: object | undefined): RequestContext {
  const found = authInfo === undefined ? undefined : requestContexts.get(authInfo);
  if (found === undefined) throw new Error('a message came without its caller');
  return found;
}

function messageExtraOf(borne: RequestContext): MessageExtraInfo {
  const authInfo = { token: '', clientId: borne.caller.principal.id, scopes: [] };
  requestContexts.set(authInfo, borne);
  return { authInfo };
}

/** Between the messages of one client and the SDK's protocol. */
export abstract class McpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void;
  /** Answers calls of tools. They do not go through the SDK, which looks at each of them and its result six times over. */
  onToolCall?: (called: ToolCallRequest) => Promise<CallToolResult>;
  /** Who had too much to read has read it. */
  ondrain?: () => void;
  abstract readonly sessionId: string | undefined;
  /** With whose credential the client answered a question of ours last. */
  lastResponder: Caller | null = null;
  readonly #cancels = new Map<RequestId, AbortController>();

  sizes(): CollectionSizes {
    return { mcp_calls: this.#cancels.size, mcp_requests: this.pending };
  }

  async start(): Promise<void> {}
  abstract send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void>;
  abstract close(): Promise<void>;
  /** Requests that are not answered yet. */
  abstract get pending(): number;
  /** Tells what belongs to no request; false where nobody reads just now. */
  abstract trySend(message: JSONRPCMessage): boolean;
  abstract keepAlive(): void;

  protected deliver(message: JSONRPCMessage, borne: RequestContext): void {
    if ('method' in message && 'id' in message) {
      const fault = paramsError(message);
      if (fault !== null) {
        const error = { code: ErrorCode.InvalidParams, message: fault };
        this.send({ jsonrpc: '2.0', id: message.id, error }).catch((thrown: Error) => this.onerror?.(thrown));
        return;
      }
      if (message.method === 'tools/call') {
        this.#call(message, borne);
        return;
      }
    }
    if (!('method' in message)) this.lastResponder = borne.caller;
    if ('method' in message && message.method === 'notifications/cancelled') {
      const id = message.params?.requestId as RequestId | undefined;
      if (id !== undefined) {
        this.#cancels.get(id)?.abort();
        this.onCancelled(id);
      }
    }
    this.onmessage?.(message, messageExtraOf(borne));
  }

  #call({ id, params }: JSONRPCRequest, bearing: RequestContext): void {
    const cancel = new AbortController();
    this.#cancels.set(id, cancel);
    const called = { id, params: params as CallToolRequest['params'], context: bearing, cancelled: cancel.signal };
    (this.onToolCall?.(called) ?? Promise.reject(new McpError(ErrorCode.MethodNotFound, 'Method not found')))
      .then(
        (result) => this.send({ jsonrpc: '2.0', id, result }),
        ({ code, message }: McpError) => this.send({ jsonrpc: '2.0', id, error: { code, message } }),
      )
      .catch((thrown: Error) => this.onerror?.(thrown))
      .finally(() => {
        if (this.#cancels.get(id) === cancel) this.#cancels.delete(id);
      });
  }

  /** The client wants no answer to this any more, and gets none. */
  protected onCancelled(_id: RequestId): void {}
}

/** The SDK takes what does not fit these for a fault of its own. */
const requestSchemas: Readonly<Record<string, ZodType>> = {
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
    ? requestSchemas[message.method]?.safeParse(message)
    : undefined;
  if (parsed === undefined || parsed.success) return null;
  const [issue] = parsed.error.issues;
  return `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'is not valid'}`;
}
