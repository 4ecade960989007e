import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../../operations/operation.ts';
import { stateFragments, stateSubject } from '../shared/live/update-kinds.ts';
import { encodeUpdateFrame, type UpdateFrame } from './frames.ts';

/** Current states by subject, framed; shared by clients that requested them at about the same time. */
export type UpdateSnapshot = ReadonlyMap<string, UpdateFrame>;

/**
 * Reads the current states of tenants. A request during a read waits for the next one, because the running read may have
 * begun before the client was subscribed.
 */
export class Snapshots {
  readonly #read: Services['store']['devices']['states'];
  readonly #running = new Map<Uuid, Promise<UpdateSnapshot>>();
  readonly #next = new Map<Uuid, Promise<UpdateSnapshot>>();

  constructor(read: Services['store']['devices']['states']) {
    this.#read = read;
  }

  sizes(): CollectionSizes {
    return { websocket_snapshots: this.#running.size, websocket_snapshots_next: this.#next.size };
  }

  /** The result of a read that begins after this call. */
  take(tenantId: Uuid, devices: ReadonlySet<Uuid> | null): Promise<UpdateSnapshot> {
    if (devices !== null) return this.#load(tenantId, [...devices]);
    const running = this.#running.get(tenantId);
    if (running === undefined) return this.#start(tenantId);
    let next = this.#next.get(tenantId);
    if (next === undefined) {
      next = running
        .catch(() => null)
        .then(() => {
          this.#next.delete(tenantId);
          return this.#start(tenantId);
        });
      this.#next.set(tenantId, next);
    }
    return next;
  }

  #start(tenantId: Uuid): Promise<UpdateSnapshot> {
    const started = this.#load(tenantId).finally(() => {
      if (this.#running.get(tenantId) === started) this.#running.delete(tenantId);
    });
    this.#running.set(tenantId, started);
    return started;
  }

  /** Devices that never reported a state are left out. */
  async #load(tenantId: Uuid, ids?: readonly Uuid[]): Promise<UpdateSnapshot> {
    const snapshot = new Map<string, UpdateFrame>();
    for (const { deviceId, state, stateVersion, reportedAt } of await this.#read(tenantId, ids)) {
      if (reportedAt === null) continue;
      const subject = stateSubject(deviceId);
      const fragments = stateFragments(deviceId, JSON.stringify(state), reportedAt);
      snapshot.set(subject, encodeUpdateFrame(subject, stateVersion, fragments));
    }
    return snapshot;
  }
}
