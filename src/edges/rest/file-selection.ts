import type { IncomingHttpHeaders } from 'node:http';
import type { Request } from 'express';

/** The part of a file that a request selects, or the status that is sent instead. Both positions are inclusive. */
export type FileSelection = { status: 200 | 206; start: number; end: number } | { status: 304 | 412 | 416 };

/**
 * Evaluates the conditions and the range of a GET or HEAD request for a file that has an entity tag and no modification
 * date (RFC 9110 §13, §14). Several ranges that are not adjacent select the whole file. The response must have its ETag
 * already, because Express compares with it.
 */
export function selectionOf(request: Request, { etag, bytes }: { etag: string; bytes: number }): FileSelection {
  const { headers } = request;
  const complete = { status: 200, start: 0, end: bytes - 1 } as const;
  if (isPreconditionFailed(headers, etag)) return { status: 412 };
  if (request.fresh) return { status: 304 };
  if (!/^ *bytes=/.test(headers.range ?? '') || !isRangeFresh(headers, etag)) return complete;
  const ranges = request.range(bytes, { combine: true });
  if (ranges === UNSATISFIABLE) return { status: 416 };
  const [range, ...others] = typeof ranges === 'object' ? ranges : [];
  if (range === undefined || others.length > 0) return complete;
  return { status: 206, start: range.start, end: range.end };
}

/** Result of Express for a range outside the file. */
const UNSATISFIABLE = -1;

function isPreconditionFailed(headers: IncomingHttpHeaders, etag: string): boolean {
  const ifMatch = headers['if-match'];
  if (ifMatch) {
    return ifMatch !== '*' && !ifMatch.split(',').some((tag) => withoutWeak(tag.trim()) === etag);
  }
  // Without a modification date no valid date fulfils the condition.
  return !Number.isNaN(Date.parse(headers['if-unmodified-since'] ?? ''));
}

/** A date never matches, because there is no modification date. */
const isRangeFresh = ({ 'if-range': ifRange }: IncomingHttpHeaders, etag: string): boolean =>
  !ifRange || ifRange.includes(etag);

const withoutWeak = (tag: string): string => (tag.startsWith('W/') ? tag.slice(2) : tag);
