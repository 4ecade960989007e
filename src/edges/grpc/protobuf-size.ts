import type { Json } from '../../domain/values.ts';

/** A field tag and a length prefix. */
const FIELD_OVERHEAD_BYTES = 6;
const DOUBLE_BYTES = 9;

/**
 * Upper bound of the encoded size of a value as `google.protobuf.Value`, which may be several times its JSON text. Stops
 * counting shortly after `most` bytes.
 */
export function maxProtobufBytes(value: Json | undefined, most = Number.POSITIVE_INFINITY): number {
  if (typeof value === 'string') return FIELD_OVERHEAD_BYTES * 2 + Buffer.byteLength(value);
  if (typeof value === 'number') return FIELD_OVERHEAD_BYTES + DOUBLE_BYTES;
  if (typeof value !== 'object' || value === null) return FIELD_OVERHEAD_BYTES;
  let bytes = FIELD_OVERHEAD_BYTES * 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (bytes > most) return bytes;
      bytes += maxProtobufBytes(item, most - bytes);
    }
  } else {
    for (const key of Object.keys(value)) {
      if (bytes > most) return bytes;
      bytes += FIELD_OVERHEAD_BYTES * 3 + Buffer.byteLength(key);
      bytes += maxProtobufBytes(value[key], most - bytes);
    }
  }
  return bytes;
}
