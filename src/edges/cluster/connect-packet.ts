import type { Readable } from 'node:stream';
import { readBytes } from '../shared/read-bytes.ts';

/** The credentials in a CONNECT, unchecked. */
export interface UncheckedCredentials {
  username: string | null;
  password: Buffer | null;
}

/** The first packet of a connection. */
export interface FirstPacket {
  /** All bytes that were read. */
  bytes: Buffer;
  /** Null if it is not a CONNECT, or is too long: the session layer answers that. */
  credentials: UncheckedCredentials | null;
}

const CONNECT = 0x10;
const MAX_LENGTH_BYTES = 4;
const WILL = 0x04;
const PASSWORD = 0x40;
const USERNAME = 0x80;
const MQTT_5 = 5;

/** Reads the CONNECT of a connection, of at most `maxBytes`. Rejects if the stream ends before. */
export async function readConnect(source: Readable, maxBytes: number): Promise<FirstPacket> {
  const type = await readBytes(source, 1);
  if (type[0] !== CONNECT) return { bytes: type, credentials: null };
  const header = [type];
  let length = 0;
  for (let n = 0; n < MAX_LENGTH_BYTES; n += 1) {
    const byte = await readBytes(source, 1);
    header.push(byte);
    length += ((byte[0] as number) & 0x7f) << (7 * n);
    if ((byte[0] as number) < 0x80) {
      if (header.length + length > maxBytes) break;
      const body = length === 0 ? Buffer.alloc(0) : await readBytes(source, length);
      return { bytes: Buffer.concat([...header, body]), credentials: credentialsIn(body) };
    }
  }
  return { bytes: Buffer.concat(header), credentials: null };
}

/** The credentials in a CONNECT without its fixed header (MQTT 3.1.1 §3.1, MQTT 5.0 §3.1); null if it is malformed. */
export function credentialsIn(body: Buffer): UncheckedCredentials | null {
  const fields = new FieldReader(body);
  fields.binary();
  const version = fields.byte();
  const flags = fields.byte();
  fields.skip(2);
  if (version === MQTT_5) fields.properties();
  fields.binary();
  if ((flags & WILL) !== 0) {
    if (version === MQTT_5) fields.properties();
    fields.binary();
    fields.binary();
  }
  const username = (flags & USERNAME) === 0 ? null : fields.binary();
  const password = (flags & PASSWORD) === 0 ? null : fields.binary();
  return fields.isComplete ? { username: username === null ? null : username.toString(), password } : null;
}

/** Reads fields one after another; beyond the end it returns zeros and is not complete. */
class FieldReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isComplete(): boolean {
    return this.#at <= this.#bytes.length;
  }

  byte(): number {
    return this.#bytes[this.#at++] ?? 0;
  }

  skip(size: number): void {
    this.#at += size;
  }

  /** A field with a length of two bytes. */
  binary(): Buffer {
    const length = this.byte() * 256 + this.byte();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** Properties (MQTT 5.0 §2.2.2), which are skipped. */
  properties(): void {
    let length = 0;
    for (let n = 0; n < MAX_LENGTH_BYTES; n += 1) {
      const byte = this.byte();
      length += (byte & 0x7f) << (7 * n);
      if (byte < 0x80) break;
    }
    this.#at += length;
  }
}
