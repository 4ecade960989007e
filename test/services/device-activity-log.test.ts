import { describe, expect, it } from 'vitest';
import { DeviceActivityLog, type LoggedMessage } from '../../src/services/device-activity-log.ts';

const DEVICE = { tenantId: 'a', deviceId: '1' };
const sent = (at: number): LoggedMessage => ({ at, channel: 'state', sequence: at, refusal: null, duplicate: false });
const listening = () => new DeviceActivityLog({ now: () => 500 });

describe('the log of device activity', () => {
  it('contains the last twenty messages, newest first', () => {
    const received = listening();
    for (let at = 1; at <= 47; at++) received.record(DEVICE, sent(at));
    const times = received.messages(DEVICE).map(({ at }) => at);
    expect(times).toEqual(Array.from({ length: 20 }, (_, back) => 47 - back));
    expect(received.since).toBe(500);
  });

  it('is empty for a device without messages', () => {
    expect(listening().messages(DEVICE)).toEqual([]);
    expect([...listening().propertyTimes(DEVICE)]).toEqual([]);
  });

  it('dates each property by the last report that contains it', () => {
    const received = listening();
    received.record(DEVICE, sent(1), { state: { on: true, level: 40, mode: 'day' }, full: true });
    received.record(DEVICE, sent(2), { state: { level: 50, mode: null }, full: false });
    received.record(DEVICE, sent(3));
    expect(Object.fromEntries(received.propertyTimes(DEVICE))).toEqual({ on: 1, level: 2 });
    received.record(DEVICE, sent(4), { state: { on: null }, full: true });
    expect(Object.fromEntries(received.propertyTimes(DEVICE))).toEqual({ on: 4 });
  });

  it('is bounded, for any messages of a device', () => {
    const received = listening();
    const state = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`p${n}`, n]));
    received.record(DEVICE, sent(1), { state, full: false });
    expect(received.propertyTimes(DEVICE).size).toBe(200);
  });

  it('never evicts the devices of one tenant for those of another', () => {
    const received = new DeviceActivityLog({ now: () => 0 }, 6);
    const keeps = (tenantId: string, deviceId: string) => received.messages({ tenantId, deviceId }).length > 0;
    received.record({ tenantId: 'small', deviceId: 's1' }, sent(1));
    for (let n = 1; n <= 50; n++) received.record({ tenantId: 'large', deviceId: `l${n}` }, sent(n));
    expect(keeps('small', 's1')).toBe(true);
    expect([45, 46, 50].map((n) => keeps('large', `l${n}`))).toEqual([false, true, true]);
    // Space for its share is taken from the tenant with the most entries.
    for (const name of ['s2', 's3']) received.record({ tenantId: 'small', deviceId: name }, sent(1));
    expect(['s1', 's2', 's3'].map((name) => keeps('small', name))).toEqual([true, true, true]);
    expect([46, 47, 48, 50].map((n) => keeps('large', `l${n}`))).toEqual([false, false, true, true]);
  });

  it('prefers devices with recent messages', () => {
    const received = new DeviceActivityLog({ now: () => 0 }, 3);
    const receive = (deviceId: string) => received.record({ tenantId: 'a', deviceId }, sent(1));
    for (const name of ['1', '2', '3', '1', '4', '5']) receive(name);
    const kept = ['1', '2', '3', '4', '5'].filter(
      (deviceId) => received.messages({ tenantId: 'a', deviceId }).length > 0,
    );
    expect(kept).toEqual(['1', '4', '5']);
  });

  it('is deleted with its device, and frees its space', () => {
    const received = new DeviceActivityLog({ now: () => 0 }, 2);
    for (const deviceId of ['1', '2']) received.record({ tenantId: 'a', deviceId }, sent(1));
    received.remove(DEVICE);
    received.remove(DEVICE);
    expect(received.messages(DEVICE)).toEqual([]);
    received.record({ tenantId: 'b', deviceId: '3' }, sent(1));
    expect(received.messages({ tenantId: 'a', deviceId: '2' })).toHaveLength(1);
  });
});
