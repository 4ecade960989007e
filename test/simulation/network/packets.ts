import { readPublish } from '../../../src/edges/mqtt/frames.ts';

/** What a client reads from the service. */
export type Received = { type: 'puback'; packetId: number } | { type: 'publish'; topic: string; payload: Buffer };

const PUBACK = 4;

/** The packets in what was written to a socket at once. */
export function readPackets(bytes: Buffer): Received[] {
  const packets: Received[] = [];
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] as number;
    const { length, from } = lengthAt(bytes, at + 1);
    at = from + length;
    if (first >> 4 === PUBACK) packets.push({ type: 'puback', packetId: bytes.readUInt16BE(from) });
    else {
      const published = readPublish(first & 0x0f, bytes, from, at);
      if (published === null) throw new Error('the service wrote a packet that is none');
      packets.push({ type: 'publish', topic: published.topic, payload: published.payload });
    }
  }
  return packets;
}

function lengthAt(bytes: Buffer, start: number): { length: number; from: number } {
  let length = 0;
  for (let at = start, shift = 0; ; at += 1, shift += 7) {
    const byte = bytes[at] as number;
    length |= (byte & 0x7f) << shift;
    if ((byte & 0x80) === 0) return { length, from: at + 1 };
  }
}
