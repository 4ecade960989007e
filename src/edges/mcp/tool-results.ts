import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { nextSteps } from './next-steps.ts';
import { sanitizeJson, sanitizeText, wrapAsData } from './sanitizer.ts';

/** `_meta` key of the structured refusal, for programs. */
export const REFUSAL_META_KEY = 'twinkeep/refusal';
/** `_meta` key that marks content written by devices and users. */
export const UNTRUSTED_META_KEY = 'twinkeep/untrusted';

/** A result with a short summary text and the structured body. */
export const toolResult = (summary: string, body: JsonObject): CallToolResult => ({
  content: [{ type: 'text', text: summary }],
  structuredContent: sanitizeJson(body) as JsonObject,
  _meta: { [UNTRUSTED_META_KEY]: true },
});

/** Maximum length of the text copy if the client has the structured content too. */
const MAX_TEXT_COPY = 4_096;
const CUT_NOTICE = 'This text is cut; the structured content is complete. To get the whole text, request less at once.';

/**
 * Adds the structured content as a text, marked as data, for models that see texts only. If the client's protocol
 * revision has no structured content (`structured` is false), the text is not cut.
 */
export function withTextContent(result: CallToolResult, structured: boolean): CallToolResult {
  const { content, structuredContent } = result;
  if (structuredContent === undefined) return result;
  const { text, cut } = wrapAsData(
    structuredContent as JsonObject,
    structured ? MAX_TEXT_COPY : Number.POSITIVE_INFINITY,
  );
  const more = cut ? [CUT_NOTICE, text] : [text];
  return { ...result, content: [...content, ...more.map((one) => ({ type: 'text' as const, text: one }))] };
}

/** A refusal as a tool result with `isError`, so that the model sees the reason and the next step. */
export function refusalResult(refusal: Refusal): CallToolResult {
  const body = refusalBody(refusal);
  const after = refusal.retryAfterS === undefined ? '' : ` Retry after ${refusal.retryAfterS} s.`;
  return {
    isError: true,
    content: [{ type: 'text', text: `${body.code}: ${body.detail}${after}\nNext: ${body.next}` }],
    _meta: { [REFUSAL_META_KEY]: body },
  };
}

/** A refusal in structured form. */
export function refusalBody({ code, detail, errors, retryAfterS }: Refusal) {
  return {
    code,
    detail: sanitizeText(detail),
    next: nextSteps[code],
    ...(errors !== undefined && { errors: sanitizeJson(errors.map((error) => ({ ...error })) as Json) }),
    ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
  };
}
