import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Connection } from './connection.ts';
import { pubacks } from './frames.ts';

interface Ack {
  packetId: number;
  settled: boolean;
}

export type { Ack };

/** Writes the PUBACKs that became due in one pass of the event loop together, one write per connection. */
export class AckWriter {
  #due: Acks[] = [];

  sizes(): CollectionSizes {
    return { mqtt_acks_due: this.#due.length };
  }

  schedule(acks: Acks): void {
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
export class Acks {
  readonly #wire: Connection;
  readonly #writer: AckWriter;
  #owed: Ack[] = [];
  #scheduled = false;

  constructor(wire: Connection, writer: AckWriter) {
    this.#wire = wire;
    this.#writer = writer;
  }

  owe(packetId: number): Ack {
    const ack = { packetId, settled: false };
    this.#owed.push(ack);
    return ack;
  }

  settle(ack: Ack): void {
    ack.settled = true;
    if (this.#scheduled || this.#owed[0]?.settled !== true) return;
    this.#scheduled = true;
    this.#writer.schedule(this);
  }

  /** Writes what is settled up to the first that is not. */
  write(): void {
    this.#scheduled = false;
    let count = 0;
    while (this.#owed[count]?.settled === true) count += 1;
    if (count === 0) return;
    this.#wire.send(pubacks(this.#owed.splice(0, count)));
  }
}
