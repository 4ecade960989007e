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
  /** Null where the envelope was not one. */
  sequence: number | null;
  /** Null where it was taken. */
  refusal: MessageRefusalCode | null;
  /** It was taken before, and changed nothing. */
  duplicate: boolean;
}

/** Whose words they are: a session, as a rule. */
interface DeviceRef {
  tenantId: Uuid;
  deviceId: Uuid;
}

interface DeviceEntry {
  /** A ring: the next one goes to `count % MAX_MESSAGES`. */
  messages: LoggedMessage[];
  count: number;
  properties: PropertyTimes;
  /** Heard again since it was last looked at for its place. */
  referenced: boolean;
}

/**
 * What devices said lately: for who looks at one and asks what it does, so it is kept in memory alone and only of those
 * that were heard lately. What was said is not in it, only that something was. Where there is no room left, a tenant with
 * its share of it or more gives up a device for the next: no tenant takes the room of another.
 */
export class DeviceActivityLog {
  readonly since: EpochMs;
  private readonly tenants = new Map<Uuid, Map<Uuid, DeviceEntry>>();
  private readonly max: number;
  private count = 0;

  constructor(clock: Clock, max = MAX_DEVICES) {
    this.since = clock.now();
    this.max = max;
  }

  sizes(): CollectionSizes {
    return { heard_devices: this.count, heard_tenants: this.tenants.size };
  }

  record(speaker: DeviceRef, message: LoggedMessage, reported: StateReport | null = null): void {
    let device = this.find(speaker);
    if (device === undefined) device = this.add(speaker);
    else device.referenced = true;
    device.messages[device.count++ % MAX_MESSAGES] = message;
    if (reported !== null) device.properties.record(reported, message.at);
  }

  /** Newest first. */
  messages(speaker: DeviceRef): LoggedMessage[] {
    const { messages, count } = this.find(speaker) ?? { messages: [], count: 0 };
    return messages.map((_, back) => messages[(count - 1 - back) % MAX_MESSAGES] as LoggedMessage);
  }

  /** When each property of the state was last reported. */
  propertyTimes(speaker: DeviceRef): ReadonlyMap<string, EpochMs> {
    return this.find(speaker)?.properties.all() ?? new Map();
  }

  remove({ tenantId, deviceId }: DeviceRef): void {
    const devices = this.tenants.get(tenantId);
    if (devices?.delete(deviceId) !== true) return;
    this.count -= 1;
    if (devices.size === 0) this.tenants.delete(tenantId);
  }

  private find({ tenantId, deviceId }: DeviceRef): DeviceEntry | undefined {
    return this.tenants.get(tenantId)?.get(deviceId);
  }

  private add({ tenantId, deviceId }: DeviceRef): DeviceEntry {
    let devices = this.tenants.get(tenantId);
    if (devices === undefined) {
      devices = new Map();
      this.tenants.set(tenantId, devices);
    }
    if (this.count >= this.max) this.evictForTenant(devices);
    const device = { messages: [], count: 0, properties: new PropertyTimes(), referenced: false };
    devices.set(deviceId, device);
    this.count += 1;
    return device;
  }

  private evictForTenant(own: Map<Uuid, DeviceEntry>): void {
    const share = this.max / this.tenants.size;
    if (own.size >= share) {
      this.evictLeastRecent(own);
      return;
    }
    for (const [tenantId, devices] of this.tenants) {
      if (devices.size > share) {
        this.evictLeastRecent(devices);
        return;
      }
      // Those who have less are asked last the next time.
      this.tenants.delete(tenantId);
      this.tenants.set(tenantId, devices);
    }
  }

  /** The first that was not heard again since it had its place; those that were go to the end. */
  private evictLeastRecent(devices: Map<Uuid, DeviceEntry>): void {
    for (const [deviceId, device] of devices) {
      devices.delete(deviceId);
      if (!device.referenced) {
        this.count -= 1;
        return;
      }
      device.referenced = false;
      devices.set(deviceId, device);
    }
  }
}
