import { count } from '../domain/message-schema.ts';
import type { JsonObject } from '../domain/values.ts';
import { MAX_FIELD_LENGTH } from './canonical.ts';
import { PROTOCOL_VERSION } from './constants.ts';

// What `readEnvelope` takes, for readers: the check itself is written out, because it runs for every message and tells
// apart why it refuses. A test holds the two together.

const text = { type: 'string', maxLength: MAX_FIELD_LENGTH, pattern: '^[^|]*$' } as const;

/** The eleven canonical fields in their order, and what stands beside them. */
const properties: JsonObject = {
  version: { ...text, description: 'Another one is `VERSION_UNSUPPORTED`', examples: [PROTOCOL_VERSION] },
  device_id: { ...text, format: 'uuid' },
  tenant_id: { ...text, format: 'uuid' },
  client_id: {
    ...text,
    description: "The session's client identifier; from the cloud, that of the session it writes to",
  },
  message_id: {
    ...text,
    minLength: 1,
    description: 'Kept when the message is sent again. A command has the one that its 202 told.',
  },
  request_id: {
    ...text,
    description:
      'A device may leave it empty. From the cloud: the `X-Request-ID` of the request behind a command, else the ' +
      '`message_id` that is answered.',
  },
  sequence_number: { ...count, description: 'Counts up: for good from the device, in each session from the cloud' },
  timestamp: { ...count, description: 'Epoch milliseconds, within five minutes of the receiver' },
  nonce: { ...text, description: 'Fresh random text; 12 bytes in base64url are plenty' },
  message_type: text,
  payload_hash: { ...text, description: 'SHA-256, in lower-case hex, of the payload in its RFC 8785 (JCS) form' },
  payload: { type: 'object', description: 'Unknown fields are ignored' },
  key_version: { ...count, minimum: 1, description: 'Of the key that opened the session' },
  signature: {
    type: 'string',
    description:
      "base64url of the device's algorithm (HMAC-SHA256 or Ed25519) over the first eleven fields joined by `|`, in this order",
  },
};

export const envelopeSchema: JsonObject = {
  type: 'object',
  description:
    'Every message, both ways: one JSON object of at most 64 KiB. Unknown fields are ignored and not signed.',
  properties,
  required: Object.keys(properties),
};
