import { describe, expect, it } from 'vitest';
import { deviceChannels, deviceTopic, isDeviceChannel, parseTopic } from '../../src/protocol/topics.ts';

describe('a device topic', () => {
  it.each([...deviceChannels, 'cmd' as const])('is built and parsed: %s', (channel) => {
    const topic = deviceTopic('tenant-1', 'device-1', channel);
    expect(topic).toBe(`proto/tenant-1/device/device-1/${channel}`);
    expect(parseTopic(topic)).toEqual({ tenantId: 'tenant-1', deviceId: 'device-1', channel });
    expect(isDeviceChannel(channel)).toBe(channel !== 'cmd');
  });

  it.each([
    '',
    'proto',
    '/proto/t/device/d/state',
    'proto/t/device/d/state/',
    'proto/t/device/d/state/x',
    'proto/t/device/d',
    'proto//device/d/state',
    'proto/t/device//state',
    'proto/t/devices/d/state',
    'PROTO/t/device/d/state',
    'proto/t/device/d/State',
    'proto/t/device/d/other',
    'proto/t/device/d/constructor',
    'proto/+/device/d/state',
    'proto/t/device/+/state',
    'proto/t/device/d/+',
    'proto/t/device/d/#',
    'proto/t/device/d/state\n',
    'proto/t\0/device/d/state',
    `proto/${'t'.repeat(65)}/device/d/state`,
    '$SYS/t/device/d/state',
  ])('is not %j', (topic) => {
    expect(parseTopic(topic)).toBeNull();
  });
});
