/*
 * Packets that are encoded and decoded without aedes, which cannot delay an acknowledgement while it continues to read,
 * or write to one client and report whether that succeeded. MQTT 3.1.1, sections 3.2, 3.3 and 3.4.
 */

const PUBACK = 0x40;
const PUBLISH = 0x30;
const DUP = 0x08;
const PACKET_IDS = 65_535;

/** CONNACK with return code 1. */
export const UNACCEPTABLE_VERSION: Buffer = Buffer.from([0x20, 2, 0, 1]);

/** Encodes PUBACKs into one buffer, in this order. */
export function encodePubacks(acks: readonly { packetId: number }[]): Buffer {
  const frame = Buffer.allocUnsafe(acks.length * 4);
  let at = 0;
  for (const { packetId: id } of acks) {
    frame[at] = PUBACK;
    frame[at + 1] = 2;
    frame[at + 2] = id >> 8;
    frame[at + 3] = id & 0xff;
    at += 4;
  }
  return frame;
}

/** Encodes a PUBLISH without DUP and RETAIN. `packetId` null means QoS 0, a number means QoS 1. */
export function encodePublish(topic: string, payload: Uint8Array | string, packetId: number | null): Buffer {
  const topicBytes = Buffer.byteLength(topic);
  const payloadBytes = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const length = 2 + topicBytes + (packetId === null ? 0 : 2) + payloadBytes;
  const frame = Buffer.allocUnsafe(1 + lengthBytes(length) + length);
  frame[0] = packetId === null ? PUBLISH : PUBLISH | 0x02;
  let at = 1;
  for (let left = length; ; ) {
    const low = left & 0x7f;
    left >>= 7;
    frame[at++] = left > 0 ? low | 0x80 : low;
    if (left === 0) break;
  }
  at = frame.writeUInt16BE(topicBytes, at);
  at += frame.write(topic, at);
  if (packetId !== null) at = frame.writeUInt16BE(packetId, at);
  if (typeof payload === 'string') frame.write(payload, at);
  else frame.set(payload, at);
  return frame;
}

/** A decoded PUBLISH. */
export interface PublishPacket {
  /** Decoded as Latin-1: a topic that is not ASCII matches none of the service's topics. */
  topic: string;
  payload: Buffer;
  qos: 0 | 1 | 2;
  retain: boolean;
  /** Null for QoS 0. */
  packetId: number | null;
  /** MQTT remaining length. */
  length: number;
}

/** Decodes the part of a PUBLISH after its fixed header, `chunk` from `from` to `to`; null if it is malformed. */
export function decodePublish(flags: number, chunk: Buffer, from: number, to: number): PublishPacket | null {
  const qos = (flags >> 1) & 0x03;
  if (qos === 3 || to - from < 2) return null;
  // [MQTT-3.3.1-2]
  if (qos === 0 && (flags & DUP) !== 0) return null;
  const topicEnd = from + 2 + chunk.readUInt16BE(from);
  const payloadAt = qos === 0 ? topicEnd : topicEnd + 2;
  if (payloadAt > to) return null;
  const packetId = qos === 0 ? null : chunk.readUInt16BE(topicEnd);
  if (packetId === 0) return null;
  return {
    topic: chunk.toString('latin1', from + 2, topicEnd),
    payload: chunk.subarray(payloadAt, to),
    qos: qos as 0 | 1 | 2,
    retain: (flags & 0x01) !== 0,
    packetId,
    length: to - from,
  };
}

/** A packet as it was read: the first byte of its fixed header, and what follows the header. */
export function encodePacket(first: number, rest: Buffer): Buffer {
  const header = [first];
  for (let left = rest.length; ; ) {
    const low = left & 0x7f;
    left >>= 7;
    header.push(left > 0 ? low | 0x80 : low);
    if (left === 0) break;
  }
  return Buffer.concat([Buffer.from(header), rest]);
}

/** The next packet identifier of a connection's QoS 1 messages: 1 to 65,535, then 1 again. */
export function nextPacketId(last: number): number {
  return (last % PACKET_IDS) + 1;
}

function lengthBytes(length: number): number {
  if (length < 0x80) return 1;
  if (length < 0x4000) return 2;
  return length < 0x20_0000 ? 3 : 4;
}
