import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { nextSteps } from './next-steps.ts';
import { marked, plain, plainText } from './plain.ts';

/** Under which a result says what its text says, for programs. */
export const REFUSAL = 'twinkeep/refusal';
/** Says of a result that what is in it was written by devices and users. */
export const UNTRUSTED = 'twinkeep/untrusted';

/** A short text of ours, and what was asked for: as structure, and marked as data for models that see texts only. */
export function resultOf(words: string, body: JsonObject): CallToolResult {
  const structuredContent = plain(body) as JsonObject;
  return {
    content: [
      { type: 'text', text: words },
      { type: 'text', text: marked(structuredContent) },
    ],
    structuredContent,
    _meta: { [UNTRUSTED]: true },
  };
}

/** A refusal is a result: the model reads why, and what to do next. */
export function refusedResult(refusal: Refusal): CallToolResult {
  const told = refusalFor(refusal);
  const after = refusal.retryAfterS === undefined ? '' : ` Retry after ${refusal.retryAfterS} s.`;
  return {
    isError: true,
    content: [{ type: 'text', text: `${told.code}: ${told.detail}${after}\nNext: ${told.next}` }],
    _meta: { [REFUSAL]: told },
  };
}

/** A refusal as programs read it. */
export function refusalFor({ code, detail, errors, retryAfterS }: Refusal) {
  return {
    code,
    detail: plainText(detail),
    next: nextSteps[code],
    ...(errors !== undefined && { errors: plain(errors.map((error) => ({ ...error })) as Json) }),
    ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
  };
}
