import type { JsonObject } from '../domain/values.ts';
import { canonicalPayload } from '../protocol/canonical.ts';

/** The service accepts packets of up to 64 KiB; topic, envelope and signature fit in the remaining 4 KiB. */
const MAX_PAYLOAD_BYTES = 60 * 1024;

/**
 * Returns a copy of the payload as it will be sent. Throws if it does not fit in a message or is not valid JSON: in the
 * queue it would never be acknowledged, and would block the messages behind it.
 */
export function toSendablePayload<Payload extends object>(payload: Payload): Payload {
  let text: string;
  try {
    text = canonicalPayload(payload as unknown as JsonObject);
  } catch (error) {
    throw new RangeError(`invalid payload: ${error instanceof Error ? error.message : error}`);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_PAYLOAD_BYTES)
    throw new RangeError(`the payload is too large: ${bytes} bytes, at most ${MAX_PAYLOAD_BYTES}`);
  return JSON.parse(text) as Payload;
}
