import type { Uuid } from './values.ts';

/**
 * The closed list of refusals (contract §2). A refusal is a value that every edge maps to its own format with a table;
 * a missing entry does not compile.
 */
export const refusals = {
  VALIDATION_FAILED: { status: 400, title: 'The request is not valid' },
  PARAMS_INVALID: { status: 400, title: 'The parameters are not valid for this action' },
  UNAUTHENTICATED: { status: 401, title: 'Sign in first' },
  TENANT_REQUIRED: { status: 403, title: 'This needs a tenant' },
  TENANT_SUSPENDED: { status: 403, title: 'The tenant is suspended' },
  FORBIDDEN_ROLE: { status: 403, title: 'Your role does not allow this' },
  INSUFFICIENT_SCOPE: { status: 403, title: 'The key lacks a scope' },
  KEY_RESTRICTED: { status: 403, title: 'The key is restricted' },
  MANIFEST_NOT_FOUND: { status: 403, title: 'The device has no capability manifest' },
  ACTION_NOT_IN_MANIFEST: { status: 403, title: 'The device does not offer this action' },
  RESTRICTED_ACTION: { status: 403, title: 'The action is internal to the protocol' },
  DEVICE_REVOKED: { status: 403, title: 'The device is revoked' },
  CONFIRMATION_FAILED: { status: 403, title: 'The confirmation failed' },
  FORBIDDEN: { status: 403, title: 'Not allowed' },
  QUOTA_REACHED: { status: 403, title: 'The quota of the tenant is reached' },
  CSRF_FAILED: { status: 403, title: 'The CSRF token is missing or wrong' },
  NOT_FOUND: { status: 404, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'Method not allowed' },
  CONFLICT: { status: 409, title: 'Conflict' },
  DRY_RUN_REQUIRED: { status: 409, title: 'A critical action needs a confirmed dry run' },
  ILLEGAL_TRANSITION: { status: 409, title: 'Not possible in this state' },
  FIRMWARE_SIGNATURE_REQUIRED: { status: 409, title: 'The firmware needs a signature' },
  FIRMWARE_SIGNATURE_INVALID: { status: 409, title: 'The signature of the firmware is not valid' },
  GONE: { status: 410, title: 'Gone' },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'Payload too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'Unsupported media type' },
  IDEMPOTENCY_MISMATCH: { status: 422, title: 'The idempotency key was used with another body' },
  RATE_LIMIT_EXCEEDED: { status: 429, title: 'Too many requests' },
  GATEWAY_ERROR: { status: 500, title: 'The safety gateway failed' },
  INTERNAL: { status: 500, title: 'Internal error' },
  MAINTENANCE: { status: 503, title: 'Under maintenance' },
  COMMANDS_DISABLED: { status: 503, title: 'Commands are disabled' },
  COGNITION_DISABLED: { status: 503, title: 'Cognition is disabled' },
  BETA_LIMIT_REACHED: { status: 503, title: 'The beta device limit is reached' },
  REGISTRATION_LOCKED: { status: 503, title: 'Registration is locked' },
  STORE_UNAVAILABLE: { status: 503, title: 'The store is unavailable' },
  OVERLOADED: { status: 503, title: 'Overloaded' },
  SIDECAR_UNAVAILABLE: { status: 503, title: 'The cognitive sidecar is unavailable' },
  STANDBY: { status: 503, title: 'This process is on standby' },
} as const;

export type RefusalCode = keyof typeof refusals;

export interface FieldError {
  /** Dotted path of the field; empty for the whole document. */
  path: string;
  message: string;
}

export interface Refusal {
  code: RefusalCode;
  /** One sentence for the reader of the response; never a secret, SQL or a stack trace. */
  detail: string;
  errors?: FieldError[];
  retryAfterS?: number;
  /** The command that was stored as rejected with this refusal. */
  commandId?: Uuid;
  /** Of a confirmed change: its subject is gone, or has changed since the preview, so it can never be applied. Not sent. */
  outdated?: true;
  /** The credential was verified, so this does not count as a failed sign-in. Not sent. */
  isVerified?: true;
}

/** The result of an operation or a rule: a value or a refusal. Faults and bugs are thrown. */
export type Outcome<T> = { ok: true; value: T } | { ok: false; refusal: Refusal };

export const done = <T>(value: T): Outcome<T> => ({ ok: true, value });

export const refuse = (
  code: RefusalCode,
  detail: string,
  more: Partial<Refusal> = {},
): { ok: false; refusal: Refusal } => ({
  ok: false,
  refusal: { code, detail, ...more },
});

/** The same refusal of a confirmed change that can never be applied. */
export const outdated = ({ refusal }: { refusal: Refusal }): { ok: false; refusal: Refusal } => ({
  ok: false,
  refusal: { ...refusal, outdated: true },
});

/** Refusals of a device's message (contract §4), sent on its `cmd` channel, in the order of the checks. */
export const messageRefusals = {
  MALFORMED: 'The envelope lacks a field, or is not JSON that all parsers read in the same way',
  VERSION_UNSUPPORTED: '`version` is not `PROTO/3.1`',
  TYPE_MISMATCH: "`message_type` does not match the topic's channel",
  IDENTITY_MISMATCH: '`tenant_id` or `device_id` does not match the topic and the session',
  SESSION_MISMATCH: '`client_id` does not match the session',
  TIMESTAMP_SKEWED: '`timestamp` is more than five minutes off',
  SIGNATURE_INVALID: 'The signature is wrong, or `key_version` does not match the key that opened the session',
  PAYLOAD_HASH_MISMATCH:
    '`payload_hash` is neither the SHA-256 of the bytes of `payload` nor that of its canonical form',
  SEQUENCE_REUSED: 'Another message used the sequence number: send `hello` and continue after `last_sequence`',
  SEQUENCE_TOO_OLD:
    'The sequence number is below the window of the last 64: send `hello` and continue after `last_sequence`',
  PAYLOAD_INVALID: 'A field of the payload is missing or mistyped; the sequence number is used',
  STATE_TOO_LARGE: 'The state would exceed 32 KiB after the merge; the sequence number is used',
  UNKNOWN_COMMAND: 'The device has no command with this id; the sequence number is used',
} as const;
export type MessageRefusalCode = keyof typeof messageRefusals;
export const messageRefusalCodes = Object.keys(messageRefusals) as [MessageRefusalCode, ...MessageRefusalCode[]];
