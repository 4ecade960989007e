import { describe, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { newDeviceSecret, signingKey } from '../../src/protocol/signature.ts';
import { cloud, devices, start, startOnline, until, withSmallCloud } from './device-fixture.ts';
import { SmallCloud } from './fake-cloud.ts';

withSmallCloud();

describe('messages on cmd', () => {
  const suspects = (device: Device) => {
    const reasons: string[] = [];
    device.on('suspect', (reason) => reasons.push(reason));
    return reasons;
  };

  it('are ignored if they are not from the service, not for this session, too old or not JSON', async () => {
    const ran: string[] = [];
    const device = await startOnline({ commands: { turn_on: (_, { commandId }) => void ran.push(commandId) } });
    const reasons = suspects(device);
    const now = Date.now();
    const cmd = { command_id: 'c', action: 'turn_on', params: {}, issued_at: now, expires_at: now + 60_000 };
    cloud.send('cmd', cmd, { key: signingKey('hmac-sha256', newDeviceSecret()) });
    cloud.send('cmd', cmd, { clientId: `${cloud.sessions[0]}x` });
    cloud.send('cmd', cmd, { tenantId: cloud.deviceId });
    cloud.send('cmd', cmd, { deviceId: cloud.tenantId });
    cloud.send('cmd', cmd, { timestamp: now - 301_000 });
    cloud.sendText('{');
    cloud.send('cmd', { ...cmd, params: [] });
    cloud.send('cmd', cmd, { sequence: 1 });
    const real = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([real]));
    expect(reasons.map((reason) => reason.split(':')[0])).toEqual([
      'SIGNATURE_INVALID',
      'SESSION_MISMATCH',
      'IDENTITY_MISMATCH',
      'IDENTITY_MISMATCH',
      'TIMESTAMP_SKEWED',
      'MALFORMED',
      'params is not valid',
      'replayed sequence number 1',
    ]);
  });

  it('are numbered from 1 in every session', async () => {
    const ran: string[] = [];
    const device = await startOnline({ commands: { turn_on: (_, { commandId }) => void ran.push(commandId) } });
    const reasons = suspects(device);
    const first = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([first]));
    cloud.cut();
    await until(() => expect(cloud.sessions).toHaveLength(2));
    await until(() => expect(device.online).toBe(true));
    const second = cloud.command('turn_on');
    await until(() => expect(ran).toEqual([first, second]));
    expect(reasons).toEqual([]);
  });

  it('are verified with the public keys of the service by an Ed25519 device', async () => {
    const other = await SmallCloud.start('ed25519');
    try {
      const device = await start({ ...other.registration(), commands: { turn_on: () => ({ state: { on: true } }) } });
      await until(() => expect(device.online).toBe(true));
      const reasons = suspects(device);
      const now = Date.now();
      const cmd = { command_id: 'c', action: 'turn_on', params: {}, issued_at: now, expires_at: now + 60_000 };
      other.send('cmd', cmd, { key: signingKey('ed25519', other.secret) });
      const id = other.command('turn_on');
      await until(() => expect(other.acks(id).map(({ status }) => status)).toEqual(['accepted', 'succeeded']));
      expect(reasons).toEqual(['SIGNATURE_INVALID: wrong signature']);
      expect(other.refused).toEqual([]);
    } finally {
      await devices[0]?.close(0);
      await other.stop();
    }
  });
});
