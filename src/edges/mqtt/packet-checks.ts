import { isUtf8 } from 'node:buffer';

/*
 * Checks of MQTT 3.1.1 that aedes does not make. The bytes are the part of a packet after its fixed header; a packet that
 * fails is a protocol violation [MQTT-4.8.0-1].
 */

const PROTOCOL_NAME = 'MQTT';
/** Protocol level of MQTT 3.1.1. */
const LEVEL_3_1_1 = 4;
const FLAGS_AND_KEEP_ALIVE_BYTES = 3;
const WILL = 0x04;
const PASSWORD = 0x40;
const USER_NAME = 0x80;

/** `version`: another level, answered by return code 1 [MQTT-3.1.2-2]. */
export type ConnectCheck = 'valid' | 'malformed' | 'version';

/** Protocol name and level, texts, and that nothing follows the payload. */
export function checkConnect(packet: Buffer): ConnectCheck {
  const fields = new Fields(packet);
  const name = fields.take();
  const level = fields.byte();
  if (name === null || level === null || !isProtocolName(name)) return 'malformed';
  if (level !== LEVEL_3_1_1) return 'version';
  const flags = fields.byte();
  if (flags === null || !fields.skip(FLAGS_AND_KEEP_ALIVE_BYTES - 1)) return 'malformed';
  const texts = [fields.take()];
  if ((flags & WILL) !== 0) {
    texts.push(fields.take());
    if (fields.take() === null) return 'malformed';
  }
  if ((flags & USER_NAME) !== 0) texts.push(fields.take());
  if ((flags & PASSWORD) !== 0 && fields.take() === null) return 'malformed';
  return fields.ended && texts.every(isText) ? 'valid' : 'malformed';
}

/** SUBSCRIBE and UNSUBSCRIBE: packet identifier and topic filters [MQTT-2.3.1-1, MQTT-1.5.3-1, MQTT-1.5.3-2]. */
export function areFiltersValid(packet: Buffer, { withQos }: { withQos: boolean }): boolean {
  const fields = new Fields(packet);
  const packetId = fields.twoBytes();
  if (packetId === null || packetId === 0 || fields.ended) return false;
  while (!fields.ended) {
    if (!isText(fields.take())) return false;
    if (withQos && fields.byte() === null) return false;
  }
  return true;
}

/** MQTT 3.1 has another name: its clients also get the return code for their version. */
const isProtocolName = (name: Buffer): boolean => {
  const text = name.toString('latin1');
  return text === PROTOCOL_NAME || text === 'MQIsdp';
};

/** Well-formed UTF-8 without U+0000. */
const isText = (bytes: Buffer | null): boolean => bytes !== null && isUtf8(bytes) && !bytes.includes(0);

/** Reads fields one after another; null and false where the packet ends before the field. */
class Fields {
  readonly #packet: Buffer;
  #at = 0;

  constructor(packet: Buffer) {
    this.#packet = packet;
  }

  get ended(): boolean {
    return this.#at === this.#packet.length;
  }

  skip(bytes: number): boolean {
    if (this.#at + bytes > this.#packet.length) return false;
    this.#at += bytes;
    return true;
  }

  byte(): number | null {
    const at = this.#at;
    return this.skip(1) ? (this.#packet[at] as number) : null;
  }

  twoBytes(): number | null {
    const at = this.#at;
    return this.skip(2) ? this.#packet.readUInt16BE(at) : null;
  }

  /** A field with its length before it, in two bytes. */
  take(): Buffer | null {
    const length = this.twoBytes();
    const at = this.#at;
    return length !== null && this.skip(length) ? this.#packet.subarray(at, at + length) : null;
  }
}
