import { Duplex } from 'node:stream';
import type { End } from './link.ts';

/** The network behind a simulated socket. */
export interface Carrier {
  send(bytes: Buffer): void;
  /** Closes the sending side. */
  end(): void;
}

/** The service's end of a simulated TCP connection, replacing a `net.Socket`. */
export class SimulatedSocket extends Duplex implements End {
  readonly #carrier: Carrier;
  #ended = false;

  constructor(carrier: Carrier) {
    super({ allowHalfOpen: false });
    this.#carrier = carrier;
  }

  received(bytes: Buffer): void {
    if (!this.destroyed && !this.readableEnded) this.push(bytes);
  }

  ended(): void {
    if (!this.destroyed) this.push(null);
  }

  broke(): void {
    this.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#carrier.send(bytes);
    done();
  }

  override _final(done: () => void): void {
    this.#end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#end();
    done(error);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#carrier.end();
  }
}
