import { limitsDevices, reachesDevice } from '../../../domain/key-restriction.ts';
import type { Uuid } from '../../../domain/values.ts';
import type { DeviceContext } from '../../../machines/device-types.ts';
import { belongsTo, type CommittedDevice } from '../../../operations/devices/device-view.ts';
import { groupDevicesOf } from '../../../operations/key-reach.ts';
import type { Caller, Services } from '../../../operations/operation.ts';

/** Updates of one connection that wait for a lookup; beyond it, one is lost. */
const MAX_WAITING = 1_000;

type ReachServices = Pick<Services, 'actors' | 'invalidations' | 'store'>;
type Restricted = Pick<Caller, 'restriction' | 'tenantId'>;

/**
 * What a live connection of a restricted key may receive (decision 55): decided for each update by where its device is at
 * that time. Updates are delivered in order; one waits if its device is not in memory, or the groups have changed. If one
 * cannot be decided, because too many wait or the store does not answer, nothing is delivered afterwards: `onLost` is
 * called once, which ends the connection, so that its client reads the current state again.
 */
export class LiveReach {
  readonly #services: Pick<Services, 'actors' | 'store'>;
  readonly #restriction: NonNullable<Caller['restriction']>;
  readonly #tenantId: Uuid;
  readonly #onLost: () => void;
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
    onLost: () => void,
  ) {
    this.#services = { actors, store };
    this.#restriction = restriction;
    this.#tenantId = tenantId;
    this.#onLost = onLost;
    this.#groupDevices = restriction.groups === undefined ? new Set() : null;
    const forget = () => {
      this.#changes += 1;
      this.#groupDevices = null;
    };
    const unsubscribes =
      restriction.groups === undefined
        ? []
        : [
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
  static of(services: ReachServices, { restriction, tenantId }: Restricted, onLost: () => void): LiveReach | null {
    if (restriction === undefined || tenantId === null || !limitsDevices(restriction)) return null;
    return new LiveReach(services, restriction, tenantId, onLost);
  }

  /** Calls `deliver` if the device is reached; not for an update that belongs to no device. */
  deliver(deviceId: Uuid | null, deliver: () => void): void {
    if (deviceId === null || this.#closed) return;
    const device = this.#services.actors.peek<DeviceContext>({ kind: 'device', id: deviceId });
    if (this.#waiting === 0 && device !== undefined && this.#groupDevices !== null) {
      if (this.#reaches(device, this.#groupDevices)) deliver();
      return;
    }
    if (this.#waiting >= MAX_WAITING) {
      this.#lose();
      return;
    }
    this.#waiting += 1;
    this.#last = this.#last
      .then(async () => {
        if (!this.#closed && (await this.reaches(deviceId)) && !this.#closed) deliver();
      })
      .catch(() => this.#lose())
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

  #lose(): void {
    if (this.#closed) return;
    this.close();
    this.#onLost();
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
