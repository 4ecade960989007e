import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { nextSteps } from './next-steps.ts';
import { sanitizeJson, sanitizeText, wrapAsData } from './sanitizer.ts';

/** `_meta` key of the structured refusal, for programs. */
export const REFUSAL_META_KEY = 'twinkeep/refusal';
/** `_meta` key that marks content written by devices and users. */
export const UNTRUSTED_META_KEY = 'twinkeep/untrusted';

/** The list of a result that is one page of a longer list. */
export interface ListedPage {
  /** The member of the body that is the list. */
  member: string;
  /** The cursor after each entry. */
  cursors(): readonly string[];
}

/** A result before its text copy is added. */
export type ToolResult = CallToolResult & { page?: ListedPage };

/** A result with a short summary text and the structured body. */
export const toolResult = (summary: string, body: JsonObject, page?: ListedPage): ToolResult => ({
  content: [{ type: 'text', text: summary }],
  structuredContent: sanitizeJson(body) as JsonObject,
  _meta: { [UNTRUSTED_META_KEY]: true },
  ...(page && { page }),
});

/** Length above which the text copy of a page has fewer entries, if the client has the structured content too. */
const MAX_TEXT_COPY = 4_096;

const shortened = (shown: number, all: number, member: string): string =>
  `The text has the first ${shown} of these ${all} ${member}; the structured content has all. To read the others as text, call again with limit ${shown} and cursor set to the next_cursor of the text.`;

/**
 * Adds the structured content as a text, marked as data, for models that see texts only. The text is always complete JSON:
 * that of a long page has fewer entries, with the cursor after them. If the client's protocol revision has no structured
 * content (`structured` is false), it has all entries.
 */
export function withTextContent({ page, ...result }: ToolResult, structured: boolean): CallToolResult {
  const { content, structuredContent } = result;
  if (structuredContent === undefined) return result;
  const body = structuredContent as JsonObject;
  const shorter = structured && page !== undefined ? shorterPage(body, page) : null;
  const more = shorter === null ? [wrapAsData(body)] : [shorter.notice, wrapAsData(shorter.body)];
  return { ...result, content: [...content, ...more.map((text) => ({ type: 'text' as const, text }))] };
}

/** The page with as many entries as fit, one at least; null if all fit. */
function shorterPage(body: JsonObject, { member, cursors }: ListedPage): { body: JsonObject; notice: string } | null {
  const entries = body[member];
  if (!Array.isArray(entries) || JSON.stringify(body).length <= MAX_TEXT_COPY) return null;
  const after = cursors();
  let length = JSON.stringify({ ...body, [member]: [], next_cursor: after[0] ?? null }).length;
  let fitting = 0;
  for (const entry of entries) {
    length += JSON.stringify(entry).length + 1;
    if (length > MAX_TEXT_COPY && fitting > 0) break;
    fitting += 1;
  }
  const cursor = after[fitting - 1];
  if (fitting >= entries.length || cursor === undefined) return null;
  const shorter = { ...body, [member]: entries.slice(0, fitting), next_cursor: cursor };
  return { body: shorter, notice: shortened(fitting, entries.length, member) };
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
export function refusalBody({ code, detail, errors, retryAfterS, commandId }: Refusal) {
  return {
    code,
    detail: sanitizeText(detail),
    next: nextSteps[code],
    ...(errors !== undefined && { errors: sanitizeJson(errors.map((error) => ({ ...error })) as Json) }),
    ...(retryAfterS !== undefined && { retry_after_s: retryAfterS }),
    ...(commandId !== undefined && { command_id: commandId }),
  };
}
