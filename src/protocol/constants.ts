/** The protocol's version in every envelope; the HTTP side reports `PROTO/3.0` (specification §9). */
export const PROTOCOL_VERSION = 'PROTO/3.1';
/** The first level of every topic. */
export const PROTOCOL_ROOT = 'proto';
/** How far a message's timestamp may be from the receiver's clock, either way. */
export const MESSAGE_SKEW_MS = 5 * 60_000;
/** How far a session token's timestamp may be from the service's clock, either way. */
export const SESSION_SKEW_MS = 120_000;
/** A session ends after this long at the latest. */
export const SESSION_LIFE_MS = 24 * 3_600_000;
/** What `hello_ack` tells a device; offline after three of these in silence. */
export const HEARTBEAT_S = 60;
