import { LRUCache } from 'lru-cache';
import type { Clock } from '../domain/clock.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { DeviceChannel } from '../domain/topics.ts';
import type { EpochMs, JsonObject, Uuid } from '../domain/values.ts';

const MAX_DEVICES = 20_000;
const MAX_MESSAGES = 20;
/** A device may name thousands of properties; of the others it is not known when they were reported. */
const MAX_PROPERTIES = 200;

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

/** What a state report named. */
export interface Reported {
  state: JsonObject;
  /** It replaced the whole state. */
  full: boolean;
}

interface Device {
  /** A ring: the next one goes to `count % MAX_MESSAGES`. */
  messages: HeardMessage[];
  count: number;
  /** When each property of the state was last reported. */
  properties: Map<string, EpochMs>;
}

/**
 * What devices said lately: for who looks at one and asks what it does, so it is kept in memory alone and only of those
 * that were heard last. What was said is not in it, only that something was.
 */
export class Heard {
  readonly since: EpochMs;
  private readonly devices = new LRUCache<Uuid, Device>({ max: MAX_DEVICES });

  constructor(clock: Clock) {
    this.since = clock.now();
  }

  message(deviceId: Uuid, message: HeardMessage, reported: Reported | null = null): void {
    let device = this.devices.get(deviceId);
    if (device === undefined) {
      device = { messages: [], count: 0, properties: new Map() };
      this.devices.set(deviceId, device);
    }
    device.messages[device.count++ % MAX_MESSAGES] = message;
    if (reported !== null) noteProperties(device.properties, reported, message.at);
  }

  /** Newest first. */
  messages(deviceId: Uuid): HeardMessage[] {
    const { messages, count } = this.devices.peek(deviceId) ?? { messages: [], count: 0 };
    return messages.map((_, back) => messages[(count - 1 - back) % MAX_MESSAGES] as HeardMessage);
  }

  properties(deviceId: Uuid): ReadonlyMap<string, EpochMs> {
    return this.devices.peek(deviceId)?.properties ?? new Map();
  }
}

/** As a merge patch does it: null takes a property away. */
function noteProperties(properties: Map<string, EpochMs>, { state, full }: Reported, at: EpochMs): void {
  if (full) properties.clear();
  for (const [name, value] of Object.entries(state)) {
    if (value === null && !full) properties.delete(name);
    else if (properties.has(name) || properties.size < MAX_PROPERTIES) properties.set(name, at);
  }
}
