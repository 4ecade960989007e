import { describe, expect, it } from 'vitest';
import { defaultMqttLimits } from '../../../src/edges/mqtt/mqtt-limits.ts';
import { eventually } from '../../support/clock.ts';
import { Device } from './client.ts';
import { device, edge, latch, open, service, withEdge } from './edge-fixture.ts';

withEdge();

const WITHIN_MS = 8_000;
const limits = { ...defaultMqttLimits, moveSpreadMs: 0 };
const ofDevice = (tenantId: string) => tenantId === device.tenantId;

describe('the connections of a tenant that moves to another node', () => {
  it('are closed, and those of other tenants stay', async () => {
    const client = await open({ limits });
    const other = await Device.connect(service, service.addDevice(service.addTenant()), edge.port);
    expect(await edge.endTenants(ofDevice, WITHIN_MS)).toBe(true);
    await eventually(() => !client.mqtt.connected);
    await other.send('state', { state: { on: true } });
    expect(service.live.size).toBe(1);
    await other.mqtt.endAsync();
  });

  it('are closed when the messages that were read are acknowledged', async () => {
    const client = await open({ limits });
    const committed = latch();
    service.commit = committed.wait;
    const sent = client.send('state', { state: { on: true } });
    await eventually(() => service.received.length > 0);
    const ended = edge.endTenants(ofDevice, WITHIN_MS);
    committed.open();
    expect(await ended).toBe(true);
    await sent;
    await eventually(() => !client.mqtt.connected);
  });

  it('stay, and are read again, if messages are not acknowledged in time', async () => {
    const client = await open({ limits });
    const committed = latch();
    service.commit = committed.wait;
    const sent = client.send('state', { state: { on: true } });
    await eventually(() => service.received.length > 0);
    expect(await edge.endTenants(ofDevice, 20)).toBe(false);
    committed.open();
    await sent;
    service.commit = async () => {};
    await client.send('state', { state: { on: false } });
    expect(client.mqtt.connected).toBe(true);
    await client.mqtt.endAsync();
  });
});
