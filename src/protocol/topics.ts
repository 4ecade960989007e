import { PROTOCOL_ROOT } from './constants.ts';

/** Channels that a device publishes on. The channel's name is also the `message_type` of its messages. */
export const deviceChannels = ['hello', 'heartbeat', 'state', 'cmd_ack'] as const;
export type DeviceChannel = (typeof deviceChannels)[number];

/** The channel that a device subscribes to; it carries commands, `hello_ack` and `error`. */
export const COMMAND_CHANNEL = 'cmd';
export type Channel = DeviceChannel | typeof COMMAND_CHANNEL;

/** Types of messages on `cmd`, cloud to device. */
export const cloudMessageTypes = ['cmd', 'hello_ack', 'error'] as const;
export type CloudMessageType = (typeof cloudMessageTypes)[number];

/** Short topics of a device that signs in with a certificate, which need not know its ids: `proto/self/state`. */
export const SELF_PREFIX = `${PROTOCOL_ROOT}/self/`;
export const SELF_COMMAND_TOPIC = `${SELF_PREFIX}${COMMAND_CHANNEL}`;

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

/** Splits a device topic into its parts; null for any other text, including wildcards. */
export function parseTopic(topic: string): DeviceTopic | null {
  const match = TOPIC.exec(topic);
  if (match === null) return null;
  return { tenantId: match[1] as string, deviceId: match[2] as string, channel: match[3] as Channel };
}

export function isDeviceChannel(channel: string): channel is DeviceChannel {
  return (deviceChannels as readonly string[]).includes(channel);
}
