import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { DeviceChannel } from '../protocol/topics.ts';
import { PropertyTimes, type StateReport } from './property-times.ts';

const MAX_DEVICES = 20_000;
const MAX_MESSAGES = 20;

export interface LoggedMessage {
  at: EpochMs;
  channel: DeviceChannel;
  /** Null if the envelope was malformed. */
  sequence: number | null;
  /** Null if the message was accepted. */
  refusal: MessageRefusalCode | null;
  /** The message had been accepted before and changed nothing. */
  duplicate: boolean;
}

/** The sending device; usually a session. */
interface DeviceRef {
  tenantId: Uuid;
  deviceId: Uuid;
}

interface DeviceEntry {
  /** A ring buffer: the next message goes to `count % MAX_MESSAGES`. */
  messages: LoggedMessage[];
  count: number;
  properties: PropertyTimes;
  /** CLOCK reference bit: the device sent a message since eviction last passed it. */
  referenced: boolean;
}

/**
 * In-memory log of the latest messages of each device, for people who inspect one. It records that a message arrived,
 * not its content. Bounded: when full, a tenant that has reached its fair share evicts one of its devices to add
 * another, so no tenant displaces the devices of a smaller one.
 */
export class DeviceActivityLog {
  readonly since: EpochMs;
  readonly #tenants = new Map<Uuid, Map<Uuid, DeviceEntry>>();
  readonly #max: number;
  #count = 0;

  constructor(clock: Clock, max = MAX_DEVICES) {
    this.since = clock.now();
    this.#max = max;
  }

  sizes(): CollectionSizes {
    return { heard_devices: this.#count, heard_tenants: this.#tenants.size };
  }

  record(ref: DeviceRef, message: LoggedMessage, reported: StateReport | null = null): void {
    let device = this.#find(ref);
    if (device === undefined) device = this.#add(ref);
    else device.referenced = true;
    device.messages[device.count++ % MAX_MESSAGES] = message;
    if (reported !== null) device.properties.record(reported, message.at);
  }

  /** Newest first. */
  messages(ref: DeviceRef): LoggedMessage[] {
    const { messages, count } = this.#find(ref) ?? { messages: [], count: 0 };
    return messages.map((_, back) => messages[(count - 1 - back) % MAX_MESSAGES] as LoggedMessage);
  }

  /** When each property of the state was last reported. */
  propertyTimes(ref: DeviceRef): ReadonlyMap<string, EpochMs> {
    return this.#find(ref)?.properties.all() ?? new Map();
  }

  remove({ tenantId, deviceId }: DeviceRef): void {
    const devices = this.#tenants.get(tenantId);
    if (devices?.delete(deviceId) !== true) return;
    this.#count -= 1;
    if (devices.size === 0) this.#tenants.delete(tenantId);
  }

  #find({ tenantId, deviceId }: DeviceRef): DeviceEntry | undefined {
    return this.#tenants.get(tenantId)?.get(deviceId);
  }

  #add({ tenantId, deviceId }: DeviceRef): DeviceEntry {
    let devices = this.#tenants.get(tenantId);
    if (devices === undefined) {
      devices = new Map();
      this.#tenants.set(tenantId, devices);
    }
    if (this.#count >= this.#max) this.#evictForTenant(devices);
    const device = { messages: [], count: 0, properties: new PropertyTimes(), referenced: false };
    devices.set(deviceId, device);
    this.#count += 1;
    return device;
  }

  #evictForTenant(own: Map<Uuid, DeviceEntry>): void {
    const share = this.#max / this.#tenants.size;
    if (own.size >= share) {
      this.#evictLeastRecent(own);
      return;
    }
    for (const [tenantId, devices] of this.#tenants) {
      if (devices.size > share) {
        this.#evictLeastRecent(devices);
        return;
      }
      // Tenants below their share move to the end of the scan order.
      this.#tenants.delete(tenantId);
      this.#tenants.set(tenantId, devices);
    }
  }

  /**
   * CLOCK (second chance): evicts the first device without its reference bit; clears the bit of the others and moves
   * them to the end.
   */
  #evictLeastRecent(devices: Map<Uuid, DeviceEntry>): void {
    for (const [deviceId, device] of devices) {
      devices.delete(deviceId);
      if (!device.referenced) {
        this.#count -= 1;
        return;
      }
      device.referenced = false;
      devices.set(deviceId, device);
    }
  }
}
