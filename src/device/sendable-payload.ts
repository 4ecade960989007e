import type { JsonObject } from '../domain/values.ts';
import { canonicalPayload } from '../protocol/canonical.ts';

/** The service takes packets of 64 KiB; topic, envelope and signature need less than the rest. */
const MAX_PAYLOAD_BYTES = 60 * 1024;

/**
 * A payload as it will be sent, whatever becomes of the object that it was made of. Throws where no message could carry it: it
 * would wait for ever, and hold up what comes behind it.
 */
export function toSendablePayload<Payload extends object>(payload: Payload): Payload {
  let text: string;
  try {
    text = canonicalPayload(payload as unknown as JsonObject);
  } catch (error) {
    throw new RangeError(`no message can hold it: ${error instanceof Error ? error.message : error}`);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_PAYLOAD_BYTES) throw new RangeError(`a message of ${bytes} bytes is too large`);
  return JSON.parse(text) as Payload;
}
