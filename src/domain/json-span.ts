/**
 * A JSON text in UTF-8 as it came, within the bytes of somebody's message. It keeps all the memory alive that those stand in, so it goes
 * along with the message and is not kept beyond it.
 */
export interface JsonSpan {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** The text itself, which keeps nothing else alive. */
export function spanText({ bytes, from, to }: JsonSpan): string {
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return buffer.toString('utf8', from, to);
}

export const spanBytes = ({ from, to }: JsonSpan): number => to - from;
