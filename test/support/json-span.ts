import type { JsonSpan } from '../../src/domain/json/span.ts';

/** The text that a span stands for. */
export const spanText = ({ bytes, from, to }: JsonSpan): string => Buffer.from(bytes.subarray(from, to)).toString();
