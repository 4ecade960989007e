import { copySpan, spanLength } from '../../domain/json/span.ts';
import type { JsonFragments } from '../shared/live/update.ts';

// Framing of server-to-client texts (RFC 6455 §5.2). Not left to `ws`, which would encode a frame per client and write
// it in two parts.

const TEXT_FINAL = 0x81;
/** Frames are concatenated up to this size for one write. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Frames are encoded into shared blocks of this size: small, so that a frame pending for a slow client retains little
 * else.
 */
const BLOCK_BYTES = 8 * 1024;
/**
 * Texts of at least `minUnits` UTF-16 units and at most `maxBytes` bytes have a header of `headerBytes`, and take at
 * most a quarter of a block.
 */
const MEDIUM = { minUnits: 126, maxBytes: BLOCK_BYTES / 4, headerBytes: 4 };

let block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
let used = 0;

/**
 * An encoded unmasked text frame, header and payload, shared by any number of clients: an immutable range of a block.
 */
export interface Frame {
  readonly block: Buffer;
  readonly from: number;
  readonly to: number;
}

export const frameBytes = ({ block, from, to }: Frame): Buffer => block.subarray(from, to);

export function encodeTextFrame(fragments: JsonFragments): Frame {
  let minBytes = 0;
  let maxBytes = 0;
  for (const fragment of fragments) {
    const isText = typeof fragment === 'string';
    const length = isText ? fragment.length : spanLength(fragment);
    minBytes += length;
    maxBytes += isText ? length * 3 : length;
  }
  return minBytes >= MEDIUM.minUnits && maxBytes <= MEDIUM.maxBytes
    ? mediumFrame(fragments, maxBytes)
    : measuredFrame(fragments);
}

/** Encodes the payload first; its length is known afterwards. */
function mediumFrame(fragments: JsonFragments, maxBytes: number): Frame {
  if (used + MEDIUM.headerBytes + maxBytes > BLOCK_BYTES) {
    block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    used = 0;
  }
  const from = used;
  used = write(fragments, block, from + MEDIUM.headerBytes);
  const length = used - from - MEDIUM.headerBytes;
  block[from] = TEXT_FINAL;
  block[from + 1] = 126;
  block[from + 2] = length >> 8;
  block[from + 3] = length;
  return { block, from, to: used };
}

function measuredFrame(fragments: JsonFragments): Frame {
  let length = 0;
  for (const fragment of fragments)
    length += typeof fragment === 'string' ? Buffer.byteLength(fragment) : spanLength(fragment);
  const headerBytes = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafe(headerBytes + length);
  frame[0] = TEXT_FINAL;
  if (headerBytes === 2) {
    frame[1] = length;
  } else if (headerBytes === 4) {
    frame[1] = 126;
    frame.writeUInt16BE(length, 2);
  } else {
    frame[1] = 127;
    frame.writeBigUInt64BE(BigInt(length), 2);
  }
  return { block: frame, from: 0, to: write(fragments, frame, headerBytes) };
}

/** Returns the end of the text. */
function write(fragments: JsonFragments, into: Buffer, start: number): number {
  let at = start;
  for (const fragment of fragments)
    at += typeof fragment === 'string' ? into.write(fragment, at) : copySpan(fragment, into, at);
  return at;
}

/** A framed update, shared by its clients. */
export interface UpdateFrame extends Frame {
  /** Conflation key and version, as in `Update`. */
  readonly subject: string;
  readonly version: number | null;
}

export function encodeUpdateFrame(subject: string, version: number | null, fragments: JsonFragments): UpdateFrame {
  const { block, from, to } = encodeTextFrame(fragments);
  return { block, from, to, subject, version };
}

export interface Chunk {
  bytes: Buffer;
  /** The updates in it, in order. */
  items: readonly UpdateFrame[];
}

/**
 * Concatenates frames, in order, into buffers of up to 64 KiB; a larger frame is a chunk by itself. Lazy: one at a
 * time.
 */
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

/** Frames that are adjacent in a block need no copy. */
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
