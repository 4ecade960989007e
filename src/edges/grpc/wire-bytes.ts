import type { Json } from '../../domain/values.ts';

/** A tag and a length. */
const FRAME = 6;
const NUMBER = 9;

/**
 * At most so many bytes does the value take as `google.protobuf.Value`, which may be several times its JSON text. Counts no
 * further than a little beyond `most`.
 */
export function wireBytes(value: Json | undefined, most = Number.POSITIVE_INFINITY): number {
  if (typeof value === 'string') return FRAME * 2 + Buffer.byteLength(value);
  if (typeof value === 'number') return FRAME + NUMBER;
  if (typeof value !== 'object' || value === null) return FRAME;
  let bytes = FRAME * 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (bytes > most) return bytes;
      bytes += wireBytes(item, most - bytes);
    }
  } else {
    for (const key of Object.keys(value)) {
      if (bytes > most) return bytes;
      bytes += FRAME * 3 + Buffer.byteLength(key);
      bytes += wireBytes(value[key], most - bytes);
    }
  }
  return bytes;
}
