// Our own framing of server-to-client texts (RFC 6455 §5.2): `ws` would build a frame per client and write it in two parts.

const TEXT_FINAL = 0x81;
/** What is joined for one write, where the frames are small enough. */
const CHUNK_BYTES = 64 * 1024;

/** Frames are written into blocks of this size: what waits for a slow client keeps little else in memory. */
const BLOCK_BYTES = 8 * 1024;
/** Texts of so many UTF-16 units have a header of this size, whatever is in them, and take at most a quarter of a block. */
const MEDIUM = { from: 126, below: BLOCK_BYTES / 4 / 3, head: 4 };

let block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
let used = 0;

/** A whole unmasked text frame: header and payload in one buffer, to be written to any number of clients. */
export function textFrame(text: string): Buffer {
  const { length } = text;
  return length >= MEDIUM.from && length < MEDIUM.below ? mediumFrame(text) : measuredFrame(text);
}

/** Written at once: how many bytes it came to is known then. */
function mediumFrame(text: string): Buffer {
  if (used + MEDIUM.head + text.length * 3 > BLOCK_BYTES) {
    block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    used = 0;
  }
  const start = used;
  const length = block.write(text, start + MEDIUM.head);
  used += MEDIUM.head + length;
  block[start] = TEXT_FINAL;
  block[start + 1] = 126;
  block[start + 2] = length >> 8;
  block[start + 3] = length;
  return block.subarray(start, used);
}

function measuredFrame(text: string): Buffer {
  const length = Buffer.byteLength(text);
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
  frame.write(text, head);
  return frame;
}

/** A framed update, as many clients may get it. */
export interface Told {
  frame: Buffer;
  /** What it is about, and which of several about it. */
  subject: string;
  version: number | null;
}

export interface Chunk {
  bytes: Buffer;
  /** The updates in it, in order. */
  items: readonly Told[];
}

/** Joins frames, in order, into buffers of about 64 KiB; a larger frame stands alone. One chunk is made at a time. */
export function* chunksOf(items: readonly Told[]): Generator<Chunk> {
  let start = 0;
  while (start < items.length) {
    let end = start;
    let bytes = 0;
    for (; end < items.length; end++) {
      const { length } = (items[end] as Told).frame;
      if (end > start && bytes + length > CHUNK_BYTES) break;
      bytes += length;
    }
    const part = items.slice(start, end);
    yield { bytes: join(part, bytes), items: part };
    start = end;
  }
}

function join(items: readonly Told[], bytes: number): Buffer {
  const [first] = items;
  if (items.length === 1 && first !== undefined) return first.frame;
  return Buffer.concat(
    items.map(({ frame }) => frame),
    bytes,
  );
}
