import type { IncomingHttpHeaders } from 'node:http';
import {
  isInitializeRequest,
  type JSONRPCMessage,
  JSONRPCMessageSchema,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Json } from '../../domain/values.ts';

const MAX_BATCH = 50;

/** The parsed body of one POST. */
export interface ParsedPost {
  messages: readonly JSONRPCMessage[];
  /** The body is an array, so the answer is one too. */
  isBatch: boolean;
  /** The POST starts a session. */
  isInitialize: boolean;
}

export function parseMessages(body: Json): Outcome<ParsedPost> {
  const batch = Array.isArray(body);
  const items = batch ? body : [body];
  if (items.length === 0 || items.length > MAX_BATCH) {
    return refuse('VALIDATION_FAILED', `A batch must have 1 to ${MAX_BATCH} messages.`);
  }
  const messages: JSONRPCMessage[] = [];
  const ids = new Set<string>();
  for (const item of items) {
    const parsed = JSONRPCMessageSchema.safeParse(item);
    if (!parsed.success) return refuse('VALIDATION_FAILED', 'The body is not a JSON-RPC 2.0 message.');
    const message = parsed.data;
    if ('method' in message && 'id' in message) {
      const id = JSON.stringify(message.id);
      if (ids.has(id)) return refuse('VALIDATION_FAILED', 'Two requests have the same id.');
      ids.add(id);
    }
    messages.push(message);
  }
  const initializes = messages.some((message) => 'method' in message && message.method === 'initialize');
  if (initializes && messages.length > 1) return refuse('VALIDATION_FAILED', 'initialize must be the only message.');
  if (initializes && !(isInitializeRequest(messages[0]) && 'id' in messages[0])) {
    return refuse('VALIDATION_FAILED', 'initialize needs protocolVersion, capabilities and clientInfo.');
  }
  return done({ messages, isBatch: batch, isInitialize: initializes });
}

/** These methods count against the tenant's rate limit: those that read what is stored, or start a session. */
const rateLimitedMethods: ReadonlySet<string> = new Set([
  ...['tools/call', 'resources/read', 'resources/list', 'resources/subscribe', 'completion/complete', 'initialize'],
]);

export const isRateLimited = (message: JSONRPCMessage): boolean =>
  'method' in message && 'id' in message && rateLimitedMethods.has(message.method);

/** The first protocol revision with structured content. */
const STRUCTURED_SINCE = '2025-06-18';

/**
 * True if the client's protocol revision has structured content. Without a version header an older revision is assumed.
 */
export function supportsStructuredContent({ 'mcp-protocol-version': version }: IncomingHttpHeaders): boolean {
  return SUPPORTED_PROTOCOL_VERSIONS.includes(`${version}`) && `${version}` >= STRUCTURED_SINCE;
}

/** Refuses an unsupported protocol revision. Null if it is supported or absent. */
export function protocolVersionRefusal(headers: IncomingHttpHeaders): Refusal | null {
  const version = headers['mcp-protocol-version'];
  if (version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(`${version}`)) return null;
  return refuse('VALIDATION_FAILED', `MCP-Protocol-Version must be one of ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')}.`)
    .refusal;
}
