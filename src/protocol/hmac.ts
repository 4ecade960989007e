import { hash, type KeyObject, timingSafeEqual } from 'node:crypto';

// HMAC-SHA256 (RFC 2104) built from two one-shot hashes. `createHmac` allocates an object for each text, which takes
// longer than the hashing and needs finalization by the garbage collector (decision 22).

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
export const TAG_LENGTH = 43; // 32 bytes in base64url
const MAX_BUFFERED_LENGTH = 2_048; // in UTF-16 units: a signed text has about 350
const MAX_UTF8_BYTES_PER_UNIT = 3;

/**
 * The inner and outer pad of an HMAC key (RFC 2104). The bytes are private, so printing an object that holds them shows
 * no key.
 */
export class HmacPads {
  readonly #inner: Uint8Array;
  /** The outer pad, followed by space for the inner hash. */
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);

  constructor(secret: Uint8Array) {
    const block = blockOf(secret);
    this.#inner = block.map((byte) => byte ^ 0x36);
    this.#outer.set(block.map((byte) => byte ^ 0x5c));
  }

  /** The tag of the text behind the first block of `bytes`; that block receives the inner pad. */
  tagOf(bytes: Uint8Array): string {
    bytes.set(this.#inner);
    // A binary string has one character per byte. Allocating a buffer would cost twice as much as the hashing.
    this.#outer.write(hash('sha256', bytes, 'binary'), BLOCK_BYTES, 'latin1');
    return hash('sha256', this.#outer, 'base64url');
  }
}

/** Space in which a text is assembled to be signed or verified. One owner each: no method awaits, so calls never overlap. */
export class HmacBuffer {
  /** Space for the inner pad, then for the text. */
  readonly #bytes = Buffer.alloc(BLOCK_BYTES + MAX_BUFFERED_LENGTH * MAX_UTF8_BYTES_PER_UNIT);
  readonly #expected = Buffer.alloc(TAG_LENGTH);
  readonly #given = Buffer.alloc(TAG_LENGTH);

  /** The space for the text. */
  readonly text: Buffer = this.#bytes.subarray(BLOCK_BYTES);

  /** The tag of the first `length` bytes of `text`. */
  tagOf(pads: HmacPads, length: number): string {
    return pads.tagOf(this.#bytes.subarray(0, BLOCK_BYTES + length));
  }

  /** Verifies the first `length` bytes of `text` against the tag of `TAG_LENGTH` bytes at `at` in `bytes`. */
  verify(pads: HmacPads, length: number, bytes: Uint8Array, at: number): boolean {
    this.#expected.write(this.tagOf(pads, length), 'latin1');
    for (let i = 0; i < TAG_LENGTH; i++) this.#given[i] = bytes[at + i] as number;
    return timingSafeEqual(this.#expected, this.#given);
  }
}

// Kept outside the key object: the key prints nothing and can still be transferred to another thread.
const padsByKey = new WeakMap<KeyObject, HmacPads>();

// One buffer for the process: the functions below have no owner that could hold it, and nothing in this module awaits, so
// calls never overlap. Buffers allocated for each call take 11 to 28 % longer (decision 22); a buffer for each key would
// be 6 KB of memory for each session.
const buffer = new HmacBuffer();
const expectedTag = Buffer.alloc(TAG_LENGTH * 2);
const givenTag = Buffer.alloc(TAG_LENGTH * 2);

/** HMAC of the UTF-8 bytes of `text`, base64url without padding. */
export function computeHmac(key: KeyObject, text: string): string {
  const pads = padsOf(key);
  if (text.length <= MAX_BUFFERED_LENGTH) return buffer.tagOf(pads, buffer.text.write(text));
  return pads.tagOf(Buffer.concat([Buffer.alloc(BLOCK_BYTES), Buffer.from(text)]));
}

/** Verifies `tag` over `text` in constant time. A malformed tag returns false. */
export function verifyHmac(key: KeyObject, text: string, tag: string): boolean {
  if (tag.length !== TAG_LENGTH) return false;
  // The texts are compared, not the decoded bytes: each tag has exactly one valid text, and its alphabet needs no
  // check.
  expectedTag.write(computeHmac(key, text), 'utf16le');
  givenTag.write(tag, 'utf16le');
  return timingSafeEqual(expectedTag, givenTag);
}

export function padsOf(key: KeyObject): HmacPads {
  let pads = padsByKey.get(key);
  if (pads === undefined) {
    pads = new HmacPads(key.export());
    padsByKey.set(key, pads);
  }
  return pads;
}

/** The secret padded with zeros to one block; a longer secret is hashed first. */
function blockOf(secret: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret);
  return block;
}
