import { generate, type Packet, parser } from 'mqtt-packet';
import type { Random } from '../world/random.ts';

const VERSION = 4;
/** A QoS 1 PUBLISH, sent for the first time. */
export const QOS_1 = { cmd: 'publish', qos: 1, dup: false, retain: false } as const;

/** Encodes a packet of MQTT 3.1.1. */
export const encoded = (packet: Packet): Buffer => generate(packet, { protocolVersion: VERSION });

/** Parses a byte stream in arbitrary chunks, and calls `received` with each packet. */
export function packetReader(received: (packet: Packet) => void): (bytes: Buffer) => void {
  const reader = parser({ protocolVersion: VERSION });
  reader.on('packet', received);
  reader.on('error', (error: Error) => {
    throw error;
  });
  return (bytes) => void reader.parse(bytes);
}

/** Packets that no client may send. */
const malformed: readonly Buffer[] = [
  // Type 0, type 15 and a CONNACK.
  Buffer.from([0x00, 0]),
  Buffer.from([0xf0, 0]),
  Buffer.from([0x20, 2, 0, 0]),
  // A PUBLISH with QoS 3, a QoS 1 PUBLISH with packet identifier 0, and a PUBLISH whose topic exceeds the packet.
  Buffer.from([0x36, 7, 0, 1, 0x61, 0, 1, 0x7b, 0x7d]),
  Buffer.from([0x32, 7, 0, 1, 0x61, 0, 0, 0x7b, 0x7d]),
  Buffer.from([0x32, 4, 0, 9, 0x61, 0x62]),
  // Lengths of five bytes and of 256 MiB.
  Buffer.from([0x32, 0x80, 0x80, 0x80, 0x80, 0x01]),
  Buffer.from([0x32, 0xff, 0xff, 0xff, 0x7f]),
  // A SUBSCRIBE whose filter has no QoS, and one with the wrong flags.
  Buffer.from([0x82, 5, 0, 1, 0, 1, 0x61]),
  Buffer.from([0x80, 6, 0, 1, 0, 1, 0x61, 1]),
];

/** Protocol violations on a connection that is signed in. */
export const violations = {
  malformedPacket: (random: Random) => random.pick(malformed),
  secondConnect: () => encoded({ cmd: 'connect', clientId: 'again', clean: true, keepalive: 0 }),
  /** The remaining bytes are never sent. */
  halfPacket: (random: Random) => {
    const whole = encoded({ ...QOS_1, topic: 'half', payload: Buffer.alloc(200), messageId: 1 });
    return whole.subarray(0, 1 + random.int(whole.length - 1));
  },
} satisfies Record<string, (random: Random) => Buffer>;

export type Violation = keyof typeof violations;
export const violationNames = Object.keys(violations) as Violation[];

/** Replacements for a CONNECT: nothing, a part of one, another packet, or bytes of no protocol. */
export function noConnect(random: Random): Buffer {
  const whole = encoded({ cmd: 'connect', clientId: 'half', clean: true, keepalive: 0 });
  return random.pick([
    Buffer.alloc(0),
    whole.subarray(0, 1 + random.int(whole.length - 1)),
    encoded({ cmd: 'pingreq' }),
    Buffer.from([0x10, 12, 0, 4, 0x48, 0x54, 0x54, 0x50, 4, 2, 0, 0, 0, 0]),
  ]);
}
