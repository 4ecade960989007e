const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/**
 * A view of the bytes of the root object's member `name` as they were sent, without the white space around them; null if
 * the root has no such member, or several. Only for texts that `parseJson` has accepted: it follows strings and
 * brackets alone.
 */
export function rawMember(bytes: Uint8Array, name: string): Uint8Array | null {
  let level = 0;
  let opened = 0;
  let closed = 0;
  let from = -1;
  let to = -1;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      opened = at;
      for (at++; bytes[at] !== QUOTE && at < bytes.length; at++) if (bytes[at] === BACKSLASH) at++;
      closed = at + 1;
    } else if (byte === COLON && level === 1) {
      if (!isNamed(bytes.subarray(opened, closed), name)) continue;
      if (from !== -1) return null;
      from = at + 1;
    } else if (byte === OPEN || byte === OPEN_LIST) {
      level++;
    } else if (byte === COMMA || byte === CLOSE || byte === CLOSE_LIST) {
      if (level === 1 && from !== -1 && to === -1) to = at;
      if (byte !== COMMA) level--;
    }
  }
  return to === -1 ? null : trimmed(bytes.subarray(from, to));
}

/** Whether the string literal, which may contain escapes, is `name`. */
function isNamed(literal: Uint8Array, name: string): boolean {
  return JSON.parse(new TextDecoder().decode(literal)) === name;
}

function trimmed(bytes: Uint8Array): Uint8Array {
  let from = 0;
  let to = bytes.length;
  while (from < to && isSpace(bytes[from])) from++;
  while (to > from && isSpace(bytes[to - 1])) to--;
  return bytes.subarray(from, to);
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === LINE_FEED || byte === RETURN;
}
