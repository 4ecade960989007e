import type { Json } from '../../domain/values.ts';

/** A field tag and a length prefix. */
const FIELD_OVERHEAD_BYTES = 6;
const DOUBLE_BYTES = 9;

/**
 * Upper bound of the encoded size of a value as `google.protobuf.Value`, which may be several times its JSON text.
 * Stops counting shortly after `max` bytes.
 */
export function maxProtobufBytes(value: Json | undefined, max = Number.POSITIVE_INFINITY): number {
  if (typeof value === 'string') return FIELD_OVERHEAD_BYTES * 2 + Buffer.byteLength(value);
  if (typeof value === 'number') return FIELD_OVERHEAD_BYTES + DOUBLE_BYTES;
  if (typeof value !== 'object' || value === null) return FIELD_OVERHEAD_BYTES;
  let bytes = FIELD_OVERHEAD_BYTES * 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (bytes > max) return bytes;
      bytes += maxProtobufBytes(item, max - bytes);
    }
  } else {
    for (const key of Object.keys(value)) {
      if (bytes > max) return bytes;
      bytes += FIELD_OVERHEAD_BYTES * 3 + Buffer.byteLength(key);
      bytes += maxProtobufBytes(value[key], max - bytes);
    }
  }
  return bytes;
}
