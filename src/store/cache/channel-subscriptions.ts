import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';

interface Subscriber {
  listener(message: string): void;
  interrupted(): void;
}

/** Subscribers of the channels of a cache, within this process. */
export class ChannelSubscriptions implements SizeReporter {
  readonly #subscribers = new Map<string, Set<Subscriber>>();

  has(channel: string): boolean {
    return this.#subscribers.has(channel);
  }

  channels(): string[] {
    return [...this.#subscribers.keys()];
  }

  /** Returns the function that ends the subscription. */
  add(
    channel: string,
    listener: Subscriber['listener'],
    interrupted: Subscriber['interrupted'] = () => {},
  ): () => void {
    const subscriber: Subscriber = { listener, interrupted };
    const subscribers = this.#subscribers.get(channel) ?? new Set();
    this.#subscribers.set(channel, subscribers.add(subscriber));
    return () => {
      subscribers.delete(subscriber);
      if (subscribers.size === 0 && this.#subscribers.get(channel) === subscribers) this.#subscribers.delete(channel);
    };
  }

  deliver(channel: string, message: string): void {
    for (const { listener } of [...(this.#subscribers.get(channel) ?? [])]) listener(message);
  }

  interrupt(): void {
    for (const subscribers of [...this.#subscribers.values()]) {
      for (const { interrupted } of [...subscribers]) interrupted();
    }
  }

  sizes(): CollectionSizes {
    let count = 0;
    for (const set of this.#subscribers.values()) count += set.size;
    return { cache_listeners: count };
  }

  clear(): void {
    this.#subscribers.clear();
  }
}
