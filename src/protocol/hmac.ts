import { hash, type KeyObject, timingSafeEqual } from 'node:crypto';

// HMAC-SHA256 as RFC 2104 writes it, of two one-shot hashes: `createHmac` makes an object for each text, which takes
// longer than the hashing and which the collector must finalise (decision 22).

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
export const TAG_LENGTH = 43; // 32 bytes in base64url
const LONGEST = 2_048; // in UTF-16 units: a signed text has about 350
const UTF8_BYTES_A_UNIT = 3;

/** A key, prepared for its hashes. Its bytes are private, as the key's are: nothing shows where something that holds it is printed. */
export class HmacPads {
  readonly #inner: Uint8Array;
  /** With room behind it for the inner hash. */
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);

  constructor(secret: Uint8Array) {
    const block = blockOf(secret);
    this.#inner = block.map((byte) => byte ^ 0x36);
    this.#outer.set(block.map((byte) => byte ^ 0x5c));
  }

  /** The tag of what is `written` up to `end`. */
  tagOfBuffer(end: number): string {
    innerText.set(this.#inner);
    return this.#tagOf(innerText.subarray(0, end));
  }

  /** The same of any text, which may be longer than the room for it. */
  tagOf(text: string): string {
    if (text.length > LONGEST) return this.#tagOf(Buffer.concat([this.#inner, Buffer.from(text)]));
    return this.tagOfBuffer(BLOCK_BYTES + innerText.write(text, BLOCK_BYTES));
  }

  #tagOf(inner: Uint8Array): string {
    // As text, one character a byte: a buffer of it would cost twice as much as the hashing.
    this.#outer.write(hash('sha256', inner, 'binary'), BLOCK_BYTES, 'latin1');
    return hash('sha256', this.#outer, 'base64url');
  }
}

// By the key and not in it: so it shows nothing when it is printed, and may travel to another thread.
const padsByKey = new WeakMap<KeyObject, HmacPads>();

// Nothing here is awaited, so one of each is enough.
const innerText = Buffer.alloc(BLOCK_BYTES + LONGEST * UTF8_BYTES_A_UNIT);
const expectedTag = Buffer.alloc(TAG_LENGTH * 2);
const givenTag = Buffer.alloc(TAG_LENGTH * 2);
const expectedBytes = Buffer.alloc(TAG_LENGTH);
const givenBytes = Buffer.alloc(TAG_LENGTH);

/** Where a text may be put together of bytes, for `isHmacOfWritten`; it begins at `WRITTEN_FROM`. */
export const signingBuffer: Uint8Array = innerText;
export const SIGNING_BUFFER_START = BLOCK_BYTES;

/** The tag of the UTF-8 bytes of `text`, base64url without padding. */
export function computeHmac(key: KeyObject, text: string): string {
  return padsOf(key).tagOf(text);
}

/** Whether `tag` is the key's over `text`, in constant time. Whatever is no tag at all is false. */
export function verifyHmac(key: KeyObject, text: string, tag: string): boolean {
  if (tag.length !== TAG_LENGTH) return false;
  // Compared as texts, whole characters of them: so a tag has one text, and no alphabet needs to be checked.
  expectedTag.write(computeHmac(key, text), 'utf16le');
  givenTag.write(tag, 'utf16le');
  return timingSafeEqual(expectedTag, givenTag);
}

/** The same of what is `written` up to `end`, and of the tag whose `TAG_LENGTH` bytes stand in `bytes` from `at` on. */
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

/** The secret filled up with zeros to a block; a longer one is hashed first. */
function blockOf(secret: Uint8Array): Uint8Array {
  const block = new Uint8Array(BLOCK_BYTES);
  block.set(secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret);
  return block;
}
