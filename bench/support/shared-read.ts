import { connect, type Socket } from 'node:net';

/*
 * Sockets of a load process, which competes with what it measures for the processors. All of them read into one buffer:
 * by default Node allocates 64 KiB for each read, which the garbage collector has to free.
 */

const READ_BYTES = 65_536;
const shared = Buffer.allocUnsafe(READ_BYTES);

/** A TCP connection to this machine. `read` gets the bytes of each read; they are valid only until it returns. */
export function connectSharingReads(port: number, read: (bytes: Buffer) => void): Socket {
  const onread = {
    buffer: shared,
    callback: (length: number) => {
      read(shared.subarray(0, length));
      return true;
    },
  };
  return connect({ port, host: '127.0.0.1', noDelay: true, onread });
}

const NOTHING = Buffer.alloc(0);

/** The start of a message whose rest has not arrived yet. */
export class PartialMessage {
  #start: Buffer = NOTHING;

  /** The kept bytes, followed by those of a read. */
  append(bytes: Buffer): Buffer {
    return this.#start.length === 0 ? bytes : Buffer.concat([this.#start, bytes]);
  }

  /** Copies the bytes that wait for more, because the next read overwrites them. */
  keep(bytes: Buffer): void {
    this.#start = bytes.length === 0 ? NOTHING : Buffer.from(bytes);
  }
}
