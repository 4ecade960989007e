import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { DeviceChannel } from '../protocol/topics.ts';
import { PropertyTimes, type Reported } from './property-times.ts';

const MAX_DEVICES = 20_000;
const MAX_MESSAGES = 20;

export interface HeardMessage {
  at: EpochMs;
  channel: DeviceChannel;
  /** Null where the envelope was not one. */
  sequence: number | null;
  /** Null where it was taken. */
  refusal: MessageRefusalCode | null;
  /** It was taken before, and changed nothing. */
  repeat: boolean;
}

/** Whose words they are: a session, as a rule. */
interface Speaker {
  tenantId: Uuid;
  deviceId: Uuid;
}

interface Device {
  /** A ring: the next one goes to `count % MAX_MESSAGES`. */
  messages: HeardMessage[];
  count: number;
  properties: PropertyTimes;
  /** Heard again since it was last looked at for its place. */
  again: boolean;
}

/**
 * What devices said lately: for who looks at one and asks what it does, so it is kept in memory alone and only of those
 * that were heard lately. What was said is not in it, only that something was. Where there is no room left, a tenant with
 * its share of it or more gives up a device for the next: no tenant takes the room of another.
 */
export class Heard {
  readonly since: EpochMs;
  private readonly tenants = new Map<Uuid, Map<Uuid, Device>>();
  private readonly max: number;
  private count = 0;

  constructor(clock: Clock, max = MAX_DEVICES) {
    this.since = clock.now();
    this.max = max;
  }

  sizes(): CollectionSizes {
    return { heard_devices: this.count, heard_tenants: this.tenants.size };
  }

  message(speaker: Speaker, message: HeardMessage, reported: Reported | null = null): void {
    let device = this.find(speaker);
    if (device === undefined) device = this.take(speaker);
    else device.again = true;
    device.messages[device.count++ % MAX_MESSAGES] = message;
    if (reported !== null) device.properties.note(reported, message.at);
  }

  /** Newest first. */
  messages(speaker: Speaker): HeardMessage[] {
    const { messages, count } = this.find(speaker) ?? { messages: [], count: 0 };
    return messages.map((_, back) => messages[(count - 1 - back) % MAX_MESSAGES] as HeardMessage);
  }

  /** When each property of the state was last reported. */
  properties(speaker: Speaker): ReadonlyMap<string, EpochMs> {
    return this.find(speaker)?.properties.all() ?? new Map();
  }

  forget({ tenantId, deviceId }: Speaker): void {
    const devices = this.tenants.get(tenantId);
    if (devices?.delete(deviceId) !== true) return;
    this.count -= 1;
    if (devices.size === 0) this.tenants.delete(tenantId);
  }

  private find({ tenantId, deviceId }: Speaker): Device | undefined {
    return this.tenants.get(tenantId)?.get(deviceId);
  }

  private take({ tenantId, deviceId }: Speaker): Device {
    let devices = this.tenants.get(tenantId);
    if (devices === undefined) {
      devices = new Map();
      this.tenants.set(tenantId, devices);
    }
    if (this.count >= this.max) this.makeRoom(devices);
    const device = { messages: [], count: 0, properties: new PropertyTimes(), again: false };
    devices.set(deviceId, device);
    this.count += 1;
    return device;
  }

  private makeRoom(own: Map<Uuid, Device>): void {
    const share = this.max / this.tenants.size;
    if (own.size >= share) {
      this.dropOne(own);
      return;
    }
    for (const [tenantId, devices] of this.tenants) {
      if (devices.size > share) {
        this.dropOne(devices);
        return;
      }
      // Those who have less are asked last the next time.
      this.tenants.delete(tenantId);
      this.tenants.set(tenantId, devices);
    }
  }

  /** The first that was not heard again since it had its place; those that were go to the end. */
  private dropOne(devices: Map<Uuid, Device>): void {
    for (const [deviceId, device] of devices) {
      devices.delete(deviceId);
      if (!device.again) {
        this.count -= 1;
        return;
      }
      device.again = false;
      devices.set(deviceId, device);
    }
  }
}
