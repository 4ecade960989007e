import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { OwnedShards } from '../domain/shards.ts';
import type { Uuid } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { VerificationWatch } from '../machines/device-types.ts';
import type { Store } from '../store/contract.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { Supervisor } from './supervisor.ts';

const RETRY_MS = 1_000;
const NO_WATCHES: readonly VerificationWatch[] = [];

/**
 * Verification watches: commands that wait for their expected state in a device's reports, or its firmware in a `hello`. An in-memory index of the
 * command rows, rebuilt at each start. It only attaches the watches to each report; the machines decide.
 */
export class VerificationWatches {
  readonly #byDevice = new Map<Uuid, Map<Uuid, VerificationWatch>>();
  /** The same as lists, built on first use. */
  readonly #lists = new Map<Uuid, readonly VerificationWatch[]>();
  /** Number of loads in progress. */
  #readsInProgress = 0;
  /** Watches that ended during a load; its result may still contain them. */
  readonly #endedWhileReading = new Set<Uuid>();
  #loading: Promise<void> = Promise.resolve();
  /** A `reload` waits for the load before it. */
  #reloadWaiting = false;
  #retryTimer: NodeJS.Timeout | null = null;
  #stopped = false;

  readonly #store: Store;
  readonly #log: Log;
  readonly #shards: ShardOwnership;

  constructor({
    supervisor,
    store,
    log,
    shards,
  }: {
    supervisor: Supervisor;
    store: Store;
    log: Log;
    shards: ShardOwnership;
  }) {
    this.#shards = shards;
    this.#store = store;
    this.#log = log;
    supervisor.subscribe('verification.watch', ({ deviceId, commandId, expected }) => {
      this.#add(deviceId, { commandId, expected, seen: false });
    });
    supervisor.subscribe('verification.unwatch', ({ deviceId, commandId }) => this.#remove(deviceId, commandId));
    supervisor.subscribeTransitions((committed, event) => {
      if (committed.ref.kind !== 'command' || event.type !== 'state.observed') return;
      const { deviceId } = event as MachineEvent & { deviceId: Uuid };
      const watch = this.#byDevice.get(deviceId)?.get(committed.ref.id);
      if (watch) watch.seen = true;
    });
  }

  sizes(): CollectionSizes {
    return { watches: this.#byDevice.size, watch_lists: this.#lists.size, watches_ended: this.#endedWhileReading.size };
  }

  forDevice(deviceId: Uuid): readonly VerificationWatch[] {
    const watches = this.#byDevice.get(deviceId);
    if (watches === undefined) return NO_WATCHES;
    let list = this.#lists.get(deviceId);
    if (list === undefined) {
      list = [...watches.values()];
      this.#lists.set(deviceId, list);
    }
    return list;
  }

  /** Synchronizes the index with the command rows; with `added`, only adds the watches of these shards. */
  load(added?: OwnedShards): Promise<void> {
    // One after another: the result of a load must not end the watches of shards that were added since it began.
    const load = this.#loading.then(() => this.#load(added));
    this.#loading = load.catch(() => {});
    return load;
  }

  async #load(added?: OwnedShards): Promise<void> {
    const stale = new Map<Uuid, Uuid>();
    if (added === undefined) {
      for (const [deviceId, watches] of this.#byDevice) for (const id of watches.keys()) stale.set(id, deviceId);
    }
    const shards = added ?? this.#shards.list;
    this.#readsInProgress += 1;
    try {
      for (const { deviceId, ...watch } of await this.#store.commands.awaitingVerification(shards)) {
        stale.delete(watch.commandId);
        if (!this.#endedWhileReading.has(watch.commandId)) this.#add(deviceId, watch);
      }
      for (const [commandId, deviceId] of stale) this.#remove(deviceId, commandId);
    } finally {
      this.#readsInProgress -= 1;
      if (this.#readsInProgress === 0) this.#endedWhileReading.clear();
    }
  }

  /** As `load`; retries until the store answers. With a slow store, only one waits for the load in progress. */
  reload(): void {
    if (this.#reloadWaiting) return;
    this.#reloadWaiting = true;
    void this.#loading.then(() => {
      this.#reloadWaiting = false;
    });
    this.load().catch((error) => {
      this.#log.warn({ err: error }, 'verification watch load failed; retrying');
      if (this.#stopped) return;
      this.#retryTimer ??= setTimeout(() => {
        this.#retryTimer = null;
        this.reload();
      }, RETRY_MS).unref();
    });
  }

  stop(): void {
    this.#stopped = true;
    if (this.#retryTimer) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
  }

  #add(deviceId: Uuid, watch: VerificationWatch): void {
    let watches = this.#byDevice.get(deviceId);
    if (watches === undefined) {
      watches = new Map();
      this.#byDevice.set(deviceId, watches);
    }
    if (watches.has(watch.commandId)) return;
    watches.set(watch.commandId, watch);
    this.#lists.delete(deviceId);
  }

  #remove(deviceId: Uuid, commandId: Uuid): void {
    if (this.#readsInProgress > 0) this.#endedWhileReading.add(commandId);
    const watches = this.#byDevice.get(deviceId);
    if (!watches?.delete(commandId)) return;
    this.#lists.delete(deviceId);
    if (watches.size === 0) this.#byDevice.delete(deviceId);
  }
}
