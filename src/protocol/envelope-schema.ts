import { countSchema } from '../domain/message-schema.ts';
import type { JsonObject } from '../domain/values.ts';
import { MAX_FIELD_LENGTH } from './canonical.ts';
import { PROTOCOL_VERSION } from './constants.ts';

// JSON Schema of the envelopes that `readEnvelope` accepts, for documentation. The check itself is hand-written,
// because it runs for every message and distinguishes the reasons for a refusal. A test keeps the two consistent.

const text = { type: 'string', maxLength: MAX_FIELD_LENGTH, pattern: '^[^|]*$' } as const;

/** The eleven canonical fields in signing order, then the unsigned fields. */
const properties: JsonObject = {
  version: {
    ...text,
    description: 'Any other version is refused with `VERSION_UNSUPPORTED`',
    examples: [PROTOCOL_VERSION],
  },
  device_id: { ...text, format: 'uuid' },
  tenant_id: { ...text, format: 'uuid' },
  client_id: {
    ...text,
    description: 'Client identifier of the session. In messages from the cloud: of the session the message is sent to',
  },
  message_id: {
    ...text,
    minLength: 1,
    description:
      'Unchanged when the message is sent again. A command has the `message_id` that its 202 response returned.',
  },
  request_id: {
    ...text,
    description:
      'A device may leave it empty. In messages from the cloud: the `X-Request-ID` of the request that sent a command, ' +
      'otherwise the `message_id` of the message being answered.',
  },
  sequence_number: {
    ...countSchema,
    description: 'Increases: permanently in messages from the device, within a session in messages from the cloud',
  },
  timestamp: { ...countSchema, description: "Epoch milliseconds, within five minutes of the receiver's clock" },
  nonce: { ...text, description: 'Fresh random text; 12 random bytes in base64url are sufficient' },
  message_type: text,
  payload_hash: {
    ...text,
    description:
      'SHA-256, in lower-case hex. In messages from the device: of the bytes of `payload` as they are in the message, ' +
      'without the white space around them, or of its RFC 8785 (JCS) form. In messages from the cloud: of the JCS form.',
  },
  payload: { type: 'object', description: 'Unknown fields are ignored' },
  key_version: { ...countSchema, minimum: 1, description: 'Version of the key that opened the session' },
  signature: {
    type: 'string',
    description:
      "base64url of the device's algorithm (HMAC-SHA256 or Ed25519) over the first eleven fields joined by `|`, in this order",
  },
};

export const envelopeSchema: JsonObject = {
  type: 'object',
  description:
    'Every message, in both directions: one JSON object of at most 64 KiB. Unknown fields are ignored and not signed.',
  properties,
  required: Object.keys(properties),
};
