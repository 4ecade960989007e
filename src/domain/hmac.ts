import { hash, type KeyObject, timingSafeEqual } from 'node:crypto';

// HMAC-SHA256 as RFC 2104 writes it, of two one-shot hashes: `createHmac` makes an object for each text, which takes
// longer than the hashing and which the collector must finalise (decision 22).

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const TAG_LENGTH = 43; // 32 bytes in base64url
const LONGEST = 2_048; // in UTF-16 units: a signed text has about 350
const UTF8_BYTES_A_UNIT = 3;

interface Pads {
  inner: Uint8Array;
  outer: Uint8Array;
}

// By the key and not in it: so it shows nothing when it is printed, and may travel to another thread.
const padsByKey = new WeakMap<KeyObject, Pads>();

// Nothing here is awaited, so one of each is enough.
const innerText = Buffer.alloc(BLOCK_BYTES + LONGEST * UTF8_BYTES_A_UNIT);
const outerText = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);
const expectedTag = Buffer.alloc(TAG_LENGTH * 2);
const givenTag = Buffer.alloc(TAG_LENGTH * 2);

/** The tag of the UTF-8 bytes of `text`, base64url without padding. */
export function hmacOf(key: KeyObject, text: string): string {
  const { inner, outer } = padsOf(key);
  // As text, one character a byte: a buffer of it would cost twice as much as the hashing.
  const digest = hash('sha256', innerOf(inner, text), 'binary');
  outerText.set(outer);
  outerText.write(digest, BLOCK_BYTES, 'latin1');
  return hash('sha256', outerText, 'base64url');
}

/** Whether `tag` is the key's over `text`, in constant time. Whatever is no tag at all is false. */
export function isHmacOf(key: KeyObject, text: string, tag: string): boolean {
  if (tag.length !== TAG_LENGTH) return false;
  // Compared as texts, whole characters of them: so a tag has one text, and no alphabet needs to be checked.
  expectedTag.write(hmacOf(key, text), 'utf16le');
  givenTag.write(tag, 'utf16le');
  return timingSafeEqual(expectedTag, givenTag);
}

function innerOf(pad: Uint8Array, text: string): Buffer {
  if (text.length > LONGEST) return Buffer.concat([pad, Buffer.from(text)]);
  innerText.set(pad);
  return innerText.subarray(0, BLOCK_BYTES + innerText.write(text, BLOCK_BYTES));
}

function padsOf(key: KeyObject): Pads {
  let pads = padsByKey.get(key);
  if (pads === undefined) {
    const block = blockOf(key.export());
    pads = { inner: block.map((byte) => byte ^ 0x36), outer: block.map((byte) => byte ^ 0x5c) };
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
