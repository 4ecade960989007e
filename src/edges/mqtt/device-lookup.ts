import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { CommittedDevice } from '../../operations/devices/device-view.ts';
import type { Services } from '../../operations/operation.ts';

export type LiveKey = NonNullable<
  ReturnType<Awaited<ReturnType<Services['store']['devices']['validKeys']>>['get']>
>[number];

/** A device's data for sign-in. */
export interface DeviceWithKeys {
  device: CommittedDevice | null;
  /** Keys that may verify, unordered: the current one and the one in its grace period. */
  keys: readonly LiveKey[];
}

interface Waiter {
  resolve(entry: DeviceWithKeys): void;
  reject(error: unknown): void;
}

const BATCH = 500;
const NO_KEYS: readonly LiveKey[] = [];

/** Batched device look-up for sign-in: requests that arrive while a query is running share the next one. */
export class DeviceLookup {
  readonly #services: Pick<Services, 'store' | 'actors'>;
  readonly #waiting = new Map<string, Waiter[]>();
  #running = false;

  constructor(services: Pick<Services, 'store' | 'actors'>) {
    this.#services = services;
  }

  sizes(): CollectionSizes {
    return { mqtt_sign_ins_reading: this.#waiting.size };
  }

  find(deviceId: string): Promise<DeviceWithKeys> {
    return new Promise((resolve, reject) => {
      const waiters = this.#waiting.get(deviceId);
      if (waiters === undefined) this.#waiting.set(deviceId, [{ resolve, reject }]);
      else waiters.push({ resolve, reject });
      if (this.#running) return;
      this.#running = true;
      setImmediate(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, BATCH);
      for (const [id] of batch) this.#waiting.delete(id);
      await this.#resolve(batch);
    }
    this.#running = false;
  }

  async #resolve(batch: [string, Waiter[]][]): Promise<void> {
    const ids = batch.map(([id]) => id);
    try {
      const [keys, devices] = await Promise.all([
        this.#services.store.devices.validKeys(ids),
        this.#services.actors.readAll<DeviceContext>('device', ids),
      ]);
      for (const [id, waiters] of batch) {
        const entry = { device: devices.get(id) ?? null, keys: keys.get(id) ?? NO_KEYS };
        for (const waiter of waiters) waiter.resolve(entry);
      }
    } catch (error) {
      for (const [, waiters] of batch) for (const waiter of waiters) waiter.reject(error);
    }
  }
}
