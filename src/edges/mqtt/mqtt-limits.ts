/** Limits of the MQTT edge (contract §1, §4); in bytes and milliseconds unless the name indicates another unit. */
export interface MqttLimits {
  /** Timeout from the first byte to the CONNECT, and again from there to the CONNACK. */
  connectMs: number;
  /** Longest packet before the CONNACK, and after it. */
  maxPacketBytesBeforeConnack: number;
  maxPacketBytes: number;
  /** Bytes of further packets that are buffered while the CONNECT is being answered. */
  maxBufferedBytesBeforeConnack: number;
  /** Connections of one network (an IPv4 address, a /64 of IPv6) that have not signed in. */
  unauthenticatedPerNetwork: number;
  /** All connections that have not signed in, as a share of the maximum of those that have. */
  unauthenticatedShare: number;
  /** One of them that has sent no CONNECT for longer may be ended for a new one. */
  silentMs: number;
  /** Send queue of one peer, and how long the peer may read none of it. */
  queuedBytes: number;
  stallMs: number;
  /** Messages of one connection in processing: their number, and the bytes above which none is added. */
  inFlight: number;
  inFlightBytes: number;
  /** Refused messages within a minute after which a session is closed. */
  refusalsPerMinute: number;
  /** Failed sign-ins a minute from one address; beyond it, responses to failures are delayed. */
  failedSignInsPerMinute: number;
  /** After a store outage that was too long, sessions are closed at a random time within this. */
  closeJitterMs: number;
  /** Topic filters per tenant user. */
  maxFilters: number;
  /** How long the peer may take to close its side after the service ended the connection. */
  lingerMs: number;
  /** How long messages in flight may take at shutdown. */
  drainMs: number;
  /** Within which the connections of tenants that another node serves are closed. */
  moveSpreadMs: number;
}

export const defaultMqttLimits: MqttLimits = {
  connectMs: 10_000,
  maxPacketBytesBeforeConnack: 4_096,
  maxPacketBytes: 65_536,
  maxBufferedBytesBeforeConnack: 16_384,
  unauthenticatedPerNetwork: 256,
  unauthenticatedShare: 0.25,
  silentMs: 5_000,
  queuedBytes: 1_048_576,
  stallMs: 5_000,
  inFlight: 32,
  inFlightBytes: 262_144,
  refusalsPerMinute: 20,
  failedSignInsPerMinute: 60,
  closeJitterMs: 30_000,
  maxFilters: 64,
  lingerMs: 1_000,
  drainMs: 5_000,
  moveSpreadMs: 3_000,
};
