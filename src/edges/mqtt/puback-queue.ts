import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { ClientConnection } from './client-connection.ts';
import { encodePubacks } from './packets.ts';

interface PendingPuback {
  packetId: number;
  ready: boolean;
}

export type { PendingPuback };

/** Batches PUBACKs: those that become ready in one iteration of the event loop leave in one write per connection. */
export class AckWriter {
  #ready: PubackQueue[] = [];

  sizes(): CollectionSizes {
    return { mqtt_acks_due: this.#ready.length };
  }

  schedule(acks: PubackQueue): void {
    if (this.#ready.length === 0) setImmediate(this.#flush);
    this.#ready.push(acks);
  }

  readonly #flush = (): void => {
    const ready = this.#ready;
    this.#ready = [];
    for (const acks of ready) acks.write();
  };
}

/** Pending PUBACKs of one connection, sent in the order of its messages [MQTT-4.6.0-2]. */
export class PubackQueue {
  readonly #connection: ClientConnection;
  readonly #writer: AckWriter;
  #pending: PendingPuback[] = [];
  #scheduled = false;

  constructor(connection: ClientConnection, writer: AckWriter) {
    this.#connection = connection;
    this.#writer = writer;
  }

  expect(packetId: number): PendingPuback {
    const ack = { packetId, ready: false };
    this.#pending.push(ack);
    return ack;
  }

  ready(ack: PendingPuback): void {
    ack.ready = true;
    if (this.#scheduled || this.#pending[0]?.ready !== true) return;
    this.#scheduled = true;
    this.#writer.schedule(this);
  }

  /** Writes the ready PUBACKs up to the first one that is not ready. */
  write(): void {
    this.#scheduled = false;
    let count = 0;
    while (this.#pending[count]?.ready === true) count += 1;
    if (count === 0) return;
    this.#connection.send(encodePubacks(this.#pending.splice(0, count)));
  }
}
