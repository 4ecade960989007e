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

  /** The tag of the text in `signingBuffer`, which ends at `end`. */
  tagOfBuffer(end: number): string {
    innerText.set(this.#inner);
    return this.#tagOf(innerText.subarray(0, end));
  }

  /** The tag of any text, including one that is longer than `signingBuffer`. */
  tagOf(text: string): string {
    if (text.length > MAX_BUFFERED_LENGTH) return this.#tagOf(Buffer.concat([this.#inner, Buffer.from(text)]));
    return this.tagOfBuffer(BLOCK_BYTES + innerText.write(text, BLOCK_BYTES));
  }

  #tagOf(inner: Uint8Array): string {
    // A binary string has one character per byte. Allocating a buffer would cost twice as much as the hashing.
    this.#outer.write(hash('sha256', inner, 'binary'), BLOCK_BYTES, 'latin1');
    return hash('sha256', this.#outer, 'base64url');
  }
}

// Kept outside the key object: the key prints nothing and can still be transferred to another thread.
const padsByKey = new WeakMap<KeyObject, HmacPads>();

// Shared scratch buffers: nothing in this module awaits, so calls never overlap.
const innerText = Buffer.alloc(BLOCK_BYTES + MAX_BUFFERED_LENGTH * MAX_UTF8_BYTES_PER_UNIT);
const expectedTag = Buffer.alloc(TAG_LENGTH * 2);
const givenTag = Buffer.alloc(TAG_LENGTH * 2);
const expectedBytes = Buffer.alloc(TAG_LENGTH);
const givenBytes = Buffer.alloc(TAG_LENGTH);

/** Scratch buffer in which a caller assembles a text for `verifyBufferHmac`, from `SIGNING_BUFFER_START` on. */
export const signingBuffer: Uint8Array = innerText;
export const SIGNING_BUFFER_START = BLOCK_BYTES;

/** HMAC of the UTF-8 bytes of `text`, base64url without padding. */
export function computeHmac(key: KeyObject, text: string): string {
  return padsOf(key).tagOf(text);
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

/** Verifies the text in `signingBuffer` up to `end` against the tag of `TAG_LENGTH` bytes at `at` in `bytes`. */
export function verifyBufferHmac(pads: HmacPads, end: number, bytes: Uint8Array, at: number): boolean {
  expectedBytes.write(pads.tagOfBuffer(end), 'latin1');
  for (let i = 0; i < TAG_LENGTH; i++) givenBytes[i] = bytes[at + i] as number;
  return timingSafeEqual(expectedBytes, givenBytes);
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
