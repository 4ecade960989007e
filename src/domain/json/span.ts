/**
 * A JSON text in UTF-8 as it came, within the bytes of somebody's message. It keeps all the memory alive that those stand in, so it goes
 * along with the message and is not kept beyond it.
 */
export interface JsonSpan {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Writes it into other bytes; answers how many it took. */
export const copySpan = ({ bytes, from, to }: JsonSpan, target: Buffer, at: number): number =>
  asBuffer(bytes).copy(target, at, from, to);

export const spanLength = ({ from, to }: JsonSpan): number => to - from;

const asBuffer = (bytes: Uint8Array): Buffer =>
  bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
