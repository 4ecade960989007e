/**
 * A received JSON text in UTF-8, as a range of a message's bytes. It keeps the message's whole buffer in memory, so it
 * must not be kept longer than the message.
 */
export interface JsonSpan {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Copies the text into `target` and returns the number of bytes. */
export const copySpan = ({ bytes, from, to }: JsonSpan, target: Buffer, at: number): number =>
  asBuffer(bytes).copy(target, at, from, to);

export const spanLength = ({ from, to }: JsonSpan): number => to - from;

const asBuffer = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);

export const spanText = ({ bytes, from, to }: JsonSpan): string => asBuffer(bytes).toString('utf8', from, to);
