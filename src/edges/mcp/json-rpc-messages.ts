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

/** What one POST carries. */
export interface ParsedPost {
  messages: readonly JSONRPCMessage[];
  /** It was an array, and so is its answer. */
  isBatch: boolean;
  /** It begins a session. */
  isInitialize: boolean;
}

export function parseMessages(body: Json): Outcome<ParsedPost> {
  const batch = Array.isArray(body);
  const given = batch ? body : [body];
  if (given.length === 0 || given.length > MAX_BATCH) {
    return refuse('VALIDATION_FAILED', `A batch holds 1 to ${MAX_BATCH} messages.`);
  }
  const messages: JSONRPCMessage[] = [];
  const ids = new Set<string>();
  for (const one of given) {
    const parsed = JSONRPCMessageSchema.safeParse(one);
    if (!parsed.success) return refuse('VALIDATION_FAILED', 'The body is no JSON-RPC 2.0 message.');
    const message = parsed.data;
    if ('method' in message && 'id' in message) {
      const id = JSON.stringify(message.id);
      if (ids.has(id)) return refuse('VALIDATION_FAILED', 'Two requests have the same id.');
      ids.add(id);
    }
    messages.push(message);
  }
  const initializes = messages.some((message) => 'method' in message && message.method === 'initialize');
  if (initializes && messages.length > 1) return refuse('VALIDATION_FAILED', 'initialize comes alone.');
  if (initializes && !isInitializeRequest(messages[0])) {
    return refuse('VALIDATION_FAILED', 'initialize needs protocolVersion, capabilities and clientInfo.');
  }
  return done({ messages, isBatch: batch, isInitialize: initializes });
}

/** Contract §2: these count against the tenant's rate, and nothing else here does. */
const rateLimitedMethods: ReadonlySet<string> = new Set(['tools/call', 'resources/read']);

export const isRateLimited = (message: JSONRPCMessage): boolean =>
  'method' in message && 'id' in message && rateLimitedMethods.has(message.method);

/** The first revision that has structured content. */
const STRUCTURED_SINCE = '2025-06-18';

/** Whether the client's revision has structured content; one that names none may be an older one. */
export function supportsStructuredContent({ 'mcp-protocol-version': version }: IncomingHttpHeaders): boolean {
  return SUPPORTED_PROTOCOL_VERSIONS.includes(`${version}`) && `${version}` >= STRUCTURED_SINCE;
}

/** Why the revision that the client says it speaks is not spoken here; null where it is, or none is named. */
export function protocolVersionRefusal(headers: IncomingHttpHeaders): Refusal | null {
  const version = headers['mcp-protocol-version'];
  if (version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(`${version}`)) return null;
  return refuse('VALIDATION_FAILED', `MCP-Protocol-Version must be one of ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')}.`)
    .refusal;
}
