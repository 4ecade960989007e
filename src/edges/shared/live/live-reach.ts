import { limitsDevices, reachesDevice } from '../../../domain/key-restriction.ts';
import type { Uuid } from '../../../domain/values.ts';
import type { DeviceContext } from '../../../machines/device-types.ts';
import { belongsTo, type CommittedDevice } from '../../../operations/devices/device-view.ts';
import { groupDevicesOf } from '../../../operations/key-reach.ts';
import type { Caller, Services } from '../../../operations/operation.ts';

/** Updates of one connection that wait for a lookup; beyond it, they are dropped. */
const MAX_WAITING = 1_000;

type ReachServices = Pick<Services, 'actors' | 'invalidations' | 'store'>;
type Restricted = Pick<Caller, 'restriction' | 'tenantId'>;

/**
 * What a live connection of a restricted key may receive (decision 55): decided for each update by where its device is at
 * that time. Updates are delivered in order; one waits if its device is not in memory, or the groups have changed.
 */
export class LiveReach {
  readonly #services: Pick<Services, 'actors' | 'store'>;
  readonly #restriction: NonNullable<Caller['restriction']>;
  readonly #tenantId: Uuid;
  readonly #unsubscribe: () => void;
  /** Devices of the named groups; null while they are not read yet, or have changed. */
  #groupDevices: ReadonlySet<Uuid> | null;
  /** Counts changes of groups: what was read before the last one is not kept. */
  #changes = 0;
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(
    { actors, store, invalidations }: ReachServices,
    restriction: NonNullable<Caller['restriction']>,
    tenantId: Uuid,
  ) {
    this.#services = { actors, store };
    this.#restriction = restriction;
    this.#tenantId = tenantId;
    this.#groupDevices = restriction.groups === undefined ? new Set() : null;
    const forget = () => {
      if (restriction.groups === undefined) return;
      this.#changes += 1;
      this.#groupDevices = null;
    };
    const unsubscribes = [
      invalidations.subscribe((item) => {
        if (item.about === 'groups' && item.tenantId === tenantId) forget();
      }),
      invalidations.subscribeMissed(forget),
    ];
    this.#unsubscribe = () => {
      for (const unsubscribe of unsubscribes) unsubscribe();
    };
  }

  /** Null for a caller whose credential reaches every device. Must be closed with the connection. */
  static of(services: ReachServices, { restriction, tenantId }: Restricted): LiveReach | null {
    if (restriction === undefined || tenantId === null || !limitsDevices(restriction)) return null;
    return new LiveReach(services, restriction, tenantId);
  }

  /** Calls `deliver` if the device is reached; not for an update that belongs to no device. */
  deliver(deviceId: Uuid | null, deliver: () => void): void {
    if (deviceId === null || this.#closed) return;
    const device = this.#services.actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
    if (this.#waiting === 0 && device !== undefined && this.#groupDevices !== null) {
      if (this.#reaches(device, this.#groupDevices)) deliver();
      return;
    }
    if (this.#waiting >= MAX_WAITING) return;
    this.#waiting += 1;
    this.#last = this.#last
      .then(async () => {
        if ((await this.reaches(deviceId)) && !this.#closed) deliver();
      })
      // The store did not answer: what cannot be decided is not delivered.
      .catch(() => {})
      .finally(() => {
        this.#waiting -= 1;
      });
  }

  /** Whether the device is reached now. Throws if the store does not answer. */
  async reaches(deviceId: Uuid): Promise<boolean> {
    const device = await this.#services.actors.read<DeviceContext>({ kind: 'device', id: deviceId });
    return device !== null && this.#reaches(device, this.#groupDevices ?? (await this.#readGroups()));
  }

  /** The ids of all devices that are reached now. */
  async deviceIds(): Promise<ReadonlySet<Uuid>> {
    const devices = await this.#services.store.devices.within(this.#tenantId, this.#restriction);
    return new Set(devices.map(({ id }) => id));
  }

  close(): void {
    this.#closed = true;
    this.#unsubscribe();
  }

  #reaches(device: CommittedDevice, groupDevices: ReadonlySet<Uuid>): boolean {
    const { fixed } = device.snapshot.context;
    return belongsTo(device, this.#tenantId) && reachesDevice(this.#restriction, fixed, groupDevices.has(fixed.id));
  }

  async #readGroups(): Promise<ReadonlySet<Uuid>> {
    for (;;) {
      const since = this.#changes;
      const { groups } = this.#restriction;
      const read = (await groupDevicesOf(this.#services.store, this.#tenantId, groups)) ?? new Set<Uuid>();
      if (since !== this.#changes) continue;
      this.#groupDevices = read;
      return read;
    }
  }
}
