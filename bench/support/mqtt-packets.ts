/*
 * The part of MQTT 3.1.1 that a load generator needs, encoded by hand: a client library would compete with the service
 * for the processor.
 */

import { PartialMessage } from './shared-read.ts';

export const CONNACK = 2;
export const PUBLISH = 3;
export const PUBACK = 4;
export const SUBACK = 9;

function encodeString(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([encodeUint16(bytes.length), bytes]);
}

const encodeUint16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);

function encodePacket(first: number, body: Buffer): Buffer {
  const length: number[] = [];
  let rest = body.length;
  do {
    const digit = rest % 128;
    rest = Math.floor(rest / 128);
    length.push(rest > 0 ? digit | 128 : digit);
  } while (rest > 0);
  return Buffer.concat([Buffer.from([first, ...length]), body]);
}

/** A clean session without a will and without keep-alive. */
export function connectPacket(session: { clientId: string; username: string; password: string }): Buffer {
  const header = Buffer.concat([encodeString('MQTT'), Buffer.from([4, 0b1100_0010, 0, 0])]);
  return encodePacket(
    0x10,
    Buffer.concat([
      header,
      encodeString(session.clientId),
      encodeString(session.username),
      encodeString(session.password),
    ]),
  );
}

/** QoS 1. */
export const subscribePacket = (id: number, topic: string): Buffer =>
  encodePacket(0x82, Buffer.concat([encodeUint16(id), encodeString(topic), Buffer.from([1])]));

/** QoS 1. */
export const publishPacket = (id: number, topic: string, payload: string): Buffer =>
  encodePacket(0x32, Buffer.concat([encodeString(topic), encodeUint16(id), Buffer.from(payload)]));

/** The bytes of a QoS 1 PUBLISH as text, which a socket writes as Latin-1 without a buffer. */
export function publishText(id: number, topic: string, payload: string): string {
  const body = isAscii(payload) ? payload : Buffer.from(payload).toString('latin1');
  let rest = 2 + topic.length + 2 + body.length;
  let length = '';
  do {
    const digit = rest % 128;
    rest = Math.floor(rest / 128);
    length += String.fromCharCode(rest > 0 ? digit | 128 : digit);
  } while (rest > 0);
  return `2${length}${uint16Text(topic.length)}${topic}${uint16Text(id)}${body}`;
}

/** The bytes of a PUBACK as text. */
export const pubackText = (id: number): string => `@\x02${uint16Text(id)}`;

const uint16Text = (value: number): string => String.fromCharCode(value >> 8, value & 255);
const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;

/** Splits a byte stream into packets; `body` is what follows the fixed header, valid only until `take` returns. */
export function packetReader(take: (type: number, flags: number, body: Buffer) => void): (bytes: Buffer) => void {
  const partial = new PartialMessage();
  return (fresh) => {
    const bytes = partial.append(fresh);
    let at = 0;
    for (;;) {
      let length = 0;
      let from = at + 1;
      let shift = 0;
      let digit = 128;
      while (from < bytes.length && digit >= 128) {
        digit = bytes[from] as number;
        length += (digit & 127) << shift;
        shift += 7;
        from += 1;
      }
      if (digit >= 128 || from + length > bytes.length) break;
      const first = bytes[at] as number;
      take(first >> 4, first & 15, bytes.subarray(from, from + length));
      at = from + length;
    }
    partial.keep(bytes.subarray(at));
  };
}

/** Packet id and payload of a QoS 1 PUBLISH. */
export function readPublish(body: Buffer): { id: number; payload: string } {
  const topic = body.readUInt16BE(0);
  return { id: body.readUInt16BE(2 + topic), payload: body.toString('utf8', 4 + topic) };
}
