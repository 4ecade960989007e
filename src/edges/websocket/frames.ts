import { copySpan, spanLength } from '../../domain/json/span.ts';
import type { JsonFragments } from '../shared/live/update.ts';

// Our own framing of server-to-client texts (RFC 6455 §5.2): `ws` would build a frame per client and write it in two parts.

const TEXT_FINAL = 0x81;
/** What is joined for one write, where the frames are small enough. */
const CHUNK_BYTES = 64 * 1024;

/** Frames are written into blocks of this size: what waits for a slow client keeps little else in memory. */
const BLOCK_BYTES = 8 * 1024;
/** Texts of so many UTF-16 units and at most so many bytes have a header of this size, and take at most a quarter of a block. */
const MEDIUM = { from: 126, most: BLOCK_BYTES / 4, head: 4 };

let block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
let used = 0;

/** A whole unmasked text frame, header and payload, to be written to any number of clients: part of a block that is not written to again. */
export interface Frame {
  readonly block: Buffer;
  readonly from: number;
  readonly to: number;
}

export const frameBytes = ({ block, from, to }: Frame): Buffer => block.subarray(from, to);

export function encodeTextFrame(pieces: JsonFragments): Frame {
  let least = 0;
  let most = 0;
  for (const piece of pieces) {
    const isText = typeof piece === 'string';
    const length = isText ? piece.length : spanLength(piece);
    least += length;
    most += isText ? length * 3 : length;
  }
  return least >= MEDIUM.from && most <= MEDIUM.most ? mediumFrame(pieces, most) : measuredFrame(pieces);
}

/** Written at once: how many bytes it came to is known then. */
function mediumFrame(pieces: JsonFragments, most: number): Frame {
  if (used + MEDIUM.head + most > BLOCK_BYTES) {
    block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    used = 0;
  }
  const from = used;
  used = write(pieces, block, from + MEDIUM.head);
  const length = used - from - MEDIUM.head;
  block[from] = TEXT_FINAL;
  block[from + 1] = 126;
  block[from + 2] = length >> 8;
  block[from + 3] = length;
  return { block, from, to: used };
}

function measuredFrame(pieces: JsonFragments): Frame {
  let length = 0;
  for (const piece of pieces) length += typeof piece === 'string' ? Buffer.byteLength(piece) : spanLength(piece);
  const head = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafe(head + length);
  frame[0] = TEXT_FINAL;
  if (head === 2) {
    frame[1] = length;
  } else if (head === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  return { block: frame, from: 0, to: write(pieces, frame, head) };
}

/** Answers where it ends. */
function write(pieces: JsonFragments, into: Buffer, start: number): number {
  let at = start;
  for (const piece of pieces) at += typeof piece === 'string' ? into.write(piece, at) : copySpan(piece, into, at);
  return at;
}

/** A framed update, as many clients may get it. */
export interface UpdateFrame extends Frame {
  /** What it is about, and which of several about it. */
  readonly subject: string;
  readonly version: number | null;
}

export function encodeUpdateFrame(subject: string, version: number | null, pieces: JsonFragments): UpdateFrame {
  const { block, from, to } = encodeTextFrame(pieces);
  return { block, from, to, subject, version };
}

export interface Chunk {
  bytes: Buffer;
  /** The updates in it, in order. */
  items: readonly UpdateFrame[];
}

/** Joins frames, in order, into buffers of about 64 KiB; a larger frame stands alone. One chunk is made at a time. */
export function* chunksOf(items: readonly UpdateFrame[]): Generator<Chunk> {
  let start = 0;
  while (start < items.length) {
    let end = start;
    let bytes = 0;
    for (; end < items.length; end++) {
      const { from, to } = items[end] as UpdateFrame;
      const length = to - from;
      if (end > start && bytes + length > CHUNK_BYTES) break;
      bytes += length;
    }
    const part = items.slice(start, end);
    yield { bytes: concatFrames(part, bytes), items: part };
    start = end;
  }
}

/** What was framed in one go is one piece already. */
function concatFrames(items: readonly Frame[], bytes: number): Buffer {
  const runs: Buffer[] = [];
  let run: Frame | null = null;
  for (const { block, from, to } of items) {
    if (run !== null && run.block === block && run.to === from) run = { block, from: run.from, to };
    else {
      if (run !== null) runs.push(frameBytes(run));
      run = { block, from, to };
    }
  }
  if (run !== null) runs.push(frameBytes(run));
  const [first] = runs;
  return runs.length === 1 && first !== undefined ? first : Buffer.concat(runs, bytes);
}
