import type { CollectionSizes } from '../../src/domain/collection-sizes.ts';
import { ChannelSubscriptions } from '../../src/store/cache/channel-subscriptions.ts';
import { MemoryCacheEntries } from '../../src/store/cache/memory-cache-entries.ts';
import type { Cache } from '../../src/store/contract.ts';

/** A cache in memory, whose messages stay within the process. */
export class MemoryCache extends MemoryCacheEntries implements Cache {
  readonly #subscriptions = new ChannelSubscriptions();

  async publish(channel: string, message: string): Promise<void> {
    this.#subscriptions.deliver(channel, message);
  }

  async subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>> {
    const unsubscribe = this.#subscriptions.add(channel, listener);
    return async () => unsubscribe();
  }

  override sizes(): CollectionSizes {
    return { ...super.sizes(), ...this.#subscriptions.sizes() };
  }

  healthy(): boolean {
    return true;
  }

  isComplete(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.clear();
    this.#subscriptions.clear();
  }
}
