import type { Cache } from '../../src/store/contract.ts';

type Listener = (message: string) => void;

/**
 * The server of a bus, with one link for each node. A message arrives at the server when its link is open, and from
 * there at all nodes in order. Delivery is synchronous; a held link keeps messages until it is open.
 */
export class BusNetwork {
  readonly #links: BusLink[] = [];

  connect(): BusLink {
    const link = new BusLink((message) => {
      for (const { receive } of this.#links) receive(message);
    });
    this.#links.push(link);
    return link;
  }
}

/** The connections of one node: one to publish, one to receive. */
export class BusLink implements Pick<Cache, 'publish' | 'subscribe'> {
  /** `cut`: publishing fails. `held`: it waits. */
  sending: 'open' | 'held' | 'cut' = 'open';
  /** `deaf`: messages are lost. `held`: they wait. */
  receiving: 'open' | 'held' | 'deaf' = 'open';
  readonly #broadcast: Listener;
  #listener: Listener = () => {};
  #interrupted: () => void = () => {};
  #outgoing: (() => void)[] = [];
  #incoming: string[] = [];

  constructor(broadcast: Listener) {
    this.#broadcast = broadcast;
  }

  async publish(_channel: string, message: string): Promise<void> {
    if (this.sending === 'cut') throw new Error('the bus is not reachable');
    if (this.sending === 'held') await new Promise<void>((resolve) => this.#outgoing.push(resolve));
    this.#broadcast(message);
  }

  async subscribe(_channel: string, listener: Listener, interrupted: () => void = () => {}) {
    this.#listener = listener;
    this.#interrupted = interrupted;
    return async () => {
      this.#listener = () => {};
    };
  }

  readonly receive = (message: string): void => {
    if (this.receiving === 'open') this.#listener(message);
    else if (this.receiving === 'held') this.#incoming.push(message);
  };

  /** Reports the loss of the receiving connection. */
  interrupt(): void {
    this.#incoming = [];
    this.#interrupted();
  }

  /** Forwards what was held. */
  restore(): void {
    this.sending = 'open';
    this.receiving = 'open';
    for (const send of this.#outgoing.splice(0)) send();
    for (const message of this.#incoming.splice(0)) this.#listener(message);
  }
}
