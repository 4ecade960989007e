import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { nextSteps } from './next-steps.ts';
import { sanitizeJson, sanitizeText, wrapAsData } from './sanitizer.ts';

/** Under which a result says what its text says, for programs. */
export const REFUSAL_META_KEY = 'twinkeep/refusal';
/** Says of a result that what is in it was written by devices and users. */
export const UNTRUSTED_META_KEY = 'twinkeep/untrusted';

/** A short text of ours, and what was asked for. */
export const toolResult = (words: string, body: JsonObject): CallToolResult => ({
  content: [{ type: 'text', text: words }],
  structuredContent: sanitizeJson(body) as JsonObject,
  _meta: { [UNTRUSTED_META_KEY]: true },
});

/** What of the structure stands in a text too, where the client has both. */
const MAX_TEXT_COPY = 4_096;
const CUT_NOTICE = 'The text is cut; structured content has all of it. To see all in texts, ask for less at once.';

/**
 * A result as a client is told it: beside the words stands what was asked for, marked as data, for models that are shown texts
 * only. `structure` says that its revision of MCP has structured content; without, the text has to say all.
 */
export function withTextContent(result: CallToolResult, structure: boolean): CallToolResult {
  const { content, structuredContent } = result;
  if (structuredContent === undefined) return result;
  const { text, cut } = wrapAsData(
    structuredContent as JsonObject,
    structure ? MAX_TEXT_COPY : Number.POSITIVE_INFINITY,
  );
  const more = cut ? [CUT_NOTICE, text] : [text];
  return { ...result, content: [...content, ...more.map((one) => ({ type: 'text' as const, text: one }))] };
}

/** A refusal is a result: the model reads why, and what to do next. */
export function refusalResult(refusal: Refusal): CallToolResult {
  const told = refusalBody(refusal);
  const after = refusal.retryAfterS === undefined ? '' : ` Retry after ${refusal.retryAfterS} s.`;
  return {
    isError: true,
    content: [{ type: 'text', text: `${told.code}: ${told.detail}${after}\nNext: ${told.next}` }],
    _meta: { [REFUSAL_META_KEY]: told },
  };
}

/** A refusal as programs read it. */
export function refusalBody({ code, detail, errors, retryAfterS }: Refusal) {
  return {
    code,
    detail: sanitizeText(detail),
    next: nextSteps[code],
    ...(errors !== undefined && { errors: sanitizeJson(errors.map((error) => ({ ...error })) as Json) }),
    ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
  };
}
