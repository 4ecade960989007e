import type { Transport, TransportSendOptions } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  InitializeRequestSchema,
  type JSONRPCMessage,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  type MessageExtraInfo,
  ReadResourceRequestSchema,
  type RequestId,
  SetLevelRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { ZodType } from 'zod';
import type { Refusal } from '../../domain/refusals.ts';
import type { Caller } from '../../operations/operation.ts';

/** What a message came with. */
export interface Bearing {
  caller: Caller;
  /** Why it is not to be answered otherwise: its rate. */
  refusal: Refusal | null;
}

/** As the SDK hands it to the handlers of requests. */
const bearing = new WeakMap<object, Bearing>();

export function bearingOf(authInfo: object | undefined): Bearing {
  const found = authInfo === undefined ? undefined : bearing.get(authInfo);
  if (found === undefined) throw new Error('a message came without its caller');
  return found;
}

function extraOf(borne: Bearing): MessageExtraInfo {
  const authInfo = { token: '', clientId: borne.caller.principal.id, scopes: [] };
  bearing.set(authInfo, borne);
  return { authInfo };
}

/** Between the messages of one client and the SDK's protocol. */
export abstract class Wire implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T, extra?: MessageExtraInfo) => void;
  abstract readonly sessionId: string | undefined;
  readonly #cancels = new Map<RequestId, AbortController>();

  async start(): Promise<void> {}
  abstract send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void>;
  abstract close(): Promise<void>;
  /** Requests that are not answered yet. */
  abstract get pending(): number;
  /** Tells what belongs to no request; false where nobody reads just now. */
  abstract tell(message: JSONRPCMessage): boolean;
  abstract keepAlive(): void;

  /** Aborts when the client takes this request back, and not when its connection breaks. */
  cancellation(id: RequestId): AbortSignal {
    const made = this.#cancels.get(id) ?? new AbortController();
    this.#cancels.set(id, made);
    return made.signal;
  }

  forget(id: RequestId): void {
    this.#cancels.delete(id);
  }

  protected deliver(message: JSONRPCMessage, borne: Bearing): void {
    if ('method' in message && 'id' in message) {
      const fault = paramsFault(message);
      if (fault !== null) {
        const error = { code: ErrorCode.InvalidParams, message: fault };
        void this.send({ jsonrpc: '2.0', id: message.id, error });
        return;
      }
    }
    if ('method' in message && message.method === 'notifications/cancelled') {
      const id = message.params?.requestId as RequestId | undefined;
      if (id !== undefined) {
        this.#cancels.get(id)?.abort();
        this.cancelled(id);
      }
    }
    this.onmessage?.(message, extraOf(borne));
  }

  /** The client wants no answer to this any more, and gets none. */
  protected cancelled(_id: RequestId): void {}
}

/** The SDK takes what does not fit these for a fault of its own. */
const requests: Readonly<Record<string, ZodType>> = {
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

function paramsFault(message: { method: string }): string | null {
  const parsed = Object.hasOwn(requests, message.method) ? requests[message.method]?.safeParse(message) : undefined;
  if (parsed === undefined || parsed.success) return null;
  const [issue] = parsed.error.issues;
  return `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'is not valid'}`;
}
