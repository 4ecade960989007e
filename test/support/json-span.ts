import type { JsonSpan } from '../../src/domain/json/span.ts';

/** Text of a span. */
export const spanText = ({ bytes, from, to }: JsonSpan): string => Buffer.from(bytes.subarray(from, to)).toString();
