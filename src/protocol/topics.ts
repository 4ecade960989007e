import { PROTOCOL_ROOT } from './constants.ts';

/** What a device publishes on; each carries messages of its own name as `message_type`. */
export const deviceChannels = ['hello', 'heartbeat', 'state', 'cmd_ack'] as const;
export type DeviceChannel = (typeof deviceChannels)[number];

/** What a device subscribes: commands, `hello_ack` and `error` come on it. */
export const COMMAND_CHANNEL = 'cmd';
export type Channel = DeviceChannel | typeof COMMAND_CHANNEL;

/** What travels on `cmd`, cloud to device. */
export const cloudMessageTypes = ['cmd', 'hello_ack', 'error'] as const;
export type CloudMessageType = (typeof cloudMessageTypes)[number];

export interface DeviceTopic {
  tenantId: string;
  deviceId: string;
  channel: Channel;
}

const TOPIC = new RegExp(
  `^${PROTOCOL_ROOT}/([^/+#\\0]{1,64})/device/([^/+#\\0]{1,64})/(${[...deviceChannels, COMMAND_CHANNEL].join('|')})$`,
);

export function deviceTopic(tenantId: string, deviceId: string, channel: Channel): string {
  return `${PROTOCOL_ROOT}/${tenantId}/device/${deviceId}/${channel}`;
}

/** The parts of a topic of exactly this shape; null for every other text, wildcards included. */
export function parseTopic(topic: string): DeviceTopic | null {
  const match = TOPIC.exec(topic);
  if (match === null) return null;
  return { tenantId: match[1] as string, deviceId: match[2] as string, channel: match[3] as Channel };
}

export function isDeviceChannel(channel: string): channel is DeviceChannel {
  return (deviceChannels as readonly string[]).includes(channel);
}
