/** Bounds of the MQTT edge (contract §1, §4); bytes and milliseconds unless the name says otherwise. */
export interface MqttLimits {
  /** From the first byte to the CONNECT, and from there to the answer. */
  connectMs: number;
  /** Longest packet before the CONNACK, and after it. */
  maxPacketBytesBeforeConnack: number;
  maxPacketBytes: number;
  /** What may come behind the CONNECT, in packets of their own, while it is answered. */
  maxBufferedBytesBeforeConnack: number;
  /** What may wait to be sent to one peer, and for how long while it takes none of it. */
  queuedBytes: number;
  stallMs: number;
  /** Messages of one connection that are read but not settled: their number, and the bytes beyond which none is added. */
  inFlight: number;
  inFlightBytes: number;
  /** Refused messages within a minute that end a session. */
  refusalsPerMinute: number;
  /** Failed sign-ins a minute from one address; beyond them the answer to the next failure waits. */
  failedSignInsPerMinute: number;
  /** When the store was away too long, sessions are closed at a random moment within this. */
  closeJitterMs: number;
  /** Filters of one tenant user. */
  maxFilters: number;
  /** How long a connection that we end may take to say goodbye. */
  lingerMs: number;
  /** How long messages in flight may take at the end of the process. */
  drainMs: number;
}

export const defaultMqttLimits: MqttLimits = {
  connectMs: 10_000,
  maxPacketBytesBeforeConnack: 4_096,
  maxPacketBytes: 65_536,
  maxBufferedBytesBeforeConnack: 16_384,
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
};
