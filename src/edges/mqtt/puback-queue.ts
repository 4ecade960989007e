import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Connection } from './connection.ts';
import { encodePubacks } from './packets.ts';

interface PendingPuback {
  packetId: number;
  ready: boolean;
}

export type { PendingPuback };

/** Writes the PUBACKs that became due in one pass of the event loop together, one write per connection. */
export class AckWriter {
  #due: PubackQueue[] = [];

  sizes(): CollectionSizes {
    return { mqtt_acks_due: this.#due.length };
  }

  schedule(acks: PubackQueue): void {
    if (this.#due.length === 0) setImmediate(this.#flush);
    this.#due.push(acks);
  }

  readonly #flush = (): void => {
    const due = this.#due;
    this.#due = [];
    for (const acks of due) acks.write();
  };
}

/** The PUBACKs that one connection is owed, in the order of its messages [MQTT-4.6.0-2]. */
export class PubackQueue {
  readonly #wire: Connection;
  readonly #writer: AckWriter;
  #owed: PendingPuback[] = [];
  #scheduled = false;

  constructor(wire: Connection, writer: AckWriter) {
    this.#wire = wire;
    this.#writer = writer;
  }

  expect(packetId: number): PendingPuback {
    const ack = { packetId, ready: false };
    this.#owed.push(ack);
    return ack;
  }

  ready(ack: PendingPuback): void {
    ack.ready = true;
    if (this.#scheduled || this.#owed[0]?.ready !== true) return;
    this.#scheduled = true;
    this.#writer.schedule(this);
  }

  /** Writes what is settled up to the first that is not. */
  write(): void {
    this.#scheduled = false;
    let count = 0;
    while (this.#owed[count]?.ready === true) count += 1;
    if (count === 0) return;
    this.#wire.send(encodePubacks(this.#owed.splice(0, count)));
  }
}
