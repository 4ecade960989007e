/** Protocol version in every envelope. The HTTP API reports `PROTO/3.0` (specification §9). */
export const PROTOCOL_VERSION = 'PROTO/3.1';
/** First level of every topic. */
export const PROTOCOL_ROOT = 'proto';
/** Maximum difference between a message's timestamp and the receiver's clock, in either direction. */
export const MESSAGE_SKEW_MS = 5 * 60_000;
/** Maximum difference between a session token's timestamp and the service's clock, in either direction. */
export const SESSION_SKEW_MS = 120_000;
/** Maximum lifetime of a session. */
export const SESSION_LIFE_MS = 24 * 3_600_000;
/** Heartbeat interval announced in `hello_ack`. A device is offline after three intervals without a message. */
export const HEARTBEAT_S = 60;
