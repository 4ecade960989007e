import { describe, expect, it } from 'vitest';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import { NOTHING } from './machine-driver.ts';
import {
  ack,
  blankDevice,
  DEVICE,
  HOME,
  HOUR,
  header,
  key,
  manifest,
  online,
  other,
  ROOM,
  refusalOf,
  register,
  registered,
  report,
  T0,
  TENANT,
} from './samples.ts';

const GRACE = 24 * HOUR;
const GRACE_TIMER = 'xstate.after.graceOver.device.administration.active.two_keys';

const rotate = (version: number, at: number) =>
  ({ type: 'rotate', at, by: other, key: key(version), graceUntil: at + GRACE }) satisfies DeviceEvent;
const revoke = (at = T0 + HOUR) => ({ type: 'revoke', at, by: other, reason: 'stolen' }) satisfies DeviceEvent;
const reinstate = (version: number, at = T0 + 2 * HOUR) =>
  ({ type: 'reinstate', at, by: other, reason: 'found', key: key(version) }) satisfies DeviceEvent;

/** One of each type, verified under a version of the key. */
const messagesUnder = (version: number): DeviceEvent[] => [
  { type: 'hello.received', at: T0, header: { keyVersion: version } },
  { type: 'heartbeat.received', at: T0, header: header(11, 'm11', version) },
  report(12, { on: false }, { header: header(12, 'm12', version) }),
  ack(13, { header: header(13, 'm13', version) }),
  { type: 'message.rejected', at: T0, header: header(14, 'm14', version), code: 'PAYLOAD_INVALID' },
];

const revoked = () => {
  const driven = registered();
  driven.send(revoke());
  return driven;
};

describe('registration', () => {
  it('creates an active device that is offline', () => {
    const driven = registered();
    expect(driven.value).toEqual({ administration: { active: 'one_key' }, link: 'offline' });
    expect(driven.context).toMatchObject({
      fixed: {
        id: DEVICE,
        tenantId: TENANT,
        deviceType: 'smart_light',
        homeId: HOME,
        createdAt: T0,
        keyVersion: 1,
        signingAlg: 'hmac-sha256',
        grace: null,
        manifestVersion: 1,
        manifestOwn: false,
        firmware: null,
      },
      live: { state: {}, stateVersion: 0 },
    });
  });

  it('stores its key and its manifest in the same commit', () => {
    const put = { type: 'key.put', deviceId: DEVICE, key: key(1) };
    expect(blankDevice().send(register())).toEqual({
      same: false,
      outputs: [put, { type: 'manifest.put', manifest: manifest(1) }],
      timers: [],
    });
    const bare = blankDevice();
    expect(bare.send(register({ manifest: null })).outputs).toEqual([put]);
    expect(bare.context).toMatchObject({ fixed: { manifestVersion: 0, manifestOwn: false } });
  });

  it('uses the algorithm of the key, and marks a manifest of the tenant as such', () => {
    const driven = registered({ key: key(1, { signingAlg: 'ed25519' }), manifest: manifest(4, { own: true }) });
    expect(driven.context).toMatchObject({ fixed: { signingAlg: 'ed25519', manifestVersion: 4, manifestOwn: true } });
  });

  it('is accepted once', () => {
    expect(registered().send(register())).toEqual(NOTHING);
  });

  it('precedes all other events', () => {
    const events: DeviceEvent[] = [
      report(1, {}),
      ack(1),
      revoke(),
      reinstate(1),
      rotate(2, T0),
      { type: 'delete', at: T0 },
    ];
    for (const event of events) {
      expect(blankDevice().send(event), event.type).toEqual(NOTHING);
    }
  });
});

describe('a patch', () => {
  it('changes the named fields, of an active and of a revoked device', () => {
    for (const driven of [registered(), revoked()]) {
      const step = driven.send({ type: 'patch', at: T0, changes: { name: 'Lamp', metadata: { a: 1 } } } as DeviceEvent);
      expect(step).toMatchObject({ same: false, outputs: [] });
      expect(driven.context).toMatchObject({ fixed: { name: 'Lamp', metadata: { a: 1 }, deviceType: 'smart_light' } });
    }
  });

  it('cannot place a revoked device, but can remove its home and room', () => {
    const place = (changes: object) => ({ type: 'patch', at: T0, changes }) as DeviceEvent;
    expect(refusalOf(revoked(), place({ homeId: HOME })).code).toBe('DEVICE_REVOKED');
    expect(refusalOf(revoked(), place({ roomId: ROOM })).code).toBe('DEVICE_REVOKED');
    expect(revoked().send(place({ homeId: null, roomId: null })).same).toBe(false);
  });
});

describe('a rotation', () => {
  it('adds a new key and starts the grace period of the old one', () => {
    const driven = registered();
    const step = driven.send(rotate(2, T0 + 5));
    expect(driven.value).toEqual({ administration: { active: 'two_keys' }, link: 'offline' });
    expect(driven.context).toMatchObject({ fixed: { keyVersion: 2, grace: { keyVersion: 1, until: T0 + 5 + GRACE } } });
    expect(step.outputs).toEqual([
      { type: 'key.put', deviceId: DEVICE, key: key(2) },
      { type: 'key.grace', deviceId: DEVICE, keyVersion: 1, graceUntil: T0 + 5 + GRACE },
    ]);
    expect(step.timers).toEqual([{ set: GRACE_TIMER, event: GRACE_TIMER, delay: GRACE }]);
  });

  it('uses the algorithm of the new key', () => {
    const driven = registered();
    driven.send({ ...rotate(2, T0), key: key(2, { signingAlg: 'ed25519' }) });
    expect(driven.context.fixed.signingAlg).toBe('ed25519');
  });

  it('ends an older grace period at once, with the session of that key, and starts a new one', () => {
    const driven = registered();
    driven.send(rotate(2, T0));
    const step = driven.send(rotate(3, T0 + HOUR));
    expect(step.outputs).toEqual([
      { type: 'keys.end', deviceId: DEVICE, status: 'retired', except: [2, 3], at: T0 + HOUR },
      { type: 'session.end', tenantId: TENANT, deviceId: DEVICE, keyVersion: 1, reason: 'the key is retired' },
      { type: 'key.put', deviceId: DEVICE, key: key(3) },
      { type: 'key.grace', deviceId: DEVICE, keyVersion: 2, graceUntil: T0 + HOUR + GRACE },
    ]);
    expect(step.timers).toEqual([{ clear: GRACE_TIMER }, { set: GRACE_TIMER, event: GRACE_TIMER, delay: GRACE }]);
    expect(driven.context).toMatchObject({
      fixed: { keyVersion: 3, grace: { keyVersion: 2, until: T0 + HOUR + GRACE } },
    });
  });

  it('is refused after a concurrent one, with and without a key in its grace period', () => {
    const driven = registered();
    expect(refusalOf(driven, rotate(1, T0))).toEqual({
      code: 'CONFLICT',
      detail: 'The key was changed concurrently. Retry with the current key version.',
    });
    expect(refusalOf(driven, rotate(3, T0)).code).toBe('CONFLICT');
    driven.send(rotate(2, T0));
    expect(refusalOf(driven, rotate(2, T0 + 1)).code).toBe('CONFLICT');
    expect(driven.context.fixed.grace).toEqual({ keyVersion: 1, until: T0 + GRACE });
  });

  it('ends its grace period after 24 h: the old key is retired and its session ends', () => {
    const driven = registered();
    driven.send(rotate(2, T0));
    driven.reload();
    const step = driven.fire();
    expect(step.outputs).toEqual([
      { type: 'keys.end', deviceId: DEVICE, status: 'retired', except: [2], at: T0 + GRACE },
      { type: 'session.end', tenantId: TENANT, deviceId: DEVICE, keyVersion: 1, reason: 'the key is retired' },
    ]);
    expect(driven.value).toEqual({ administration: { active: 'one_key' }, link: 'offline' });
    expect(driven.context.fixed.grace).toBeNull();
    expect(driven.running.size).toBe(0);
  });

  it('is not shortened by the timer of an earlier one: the rest of the time is set again', () => {
    const driven = registered();
    driven.send(rotate(2, T0));
    driven.send(rotate(3, T0 + HOUR));
    const step = driven.send({ type: GRACE_TIMER, at: T0 + GRACE });
    expect(step.outputs).toEqual([]);
    expect(driven.context.fixed.grace).toEqual({ keyVersion: 2, until: T0 + HOUR + GRACE });
    expect(driven.running.get(GRACE_TIMER)).toEqual({ event: GRACE_TIMER, dueAt: T0 + HOUR + GRACE });
  });
});

describe('a revocation', () => {
  it('ends the keys and the session, notifies the commands and marks the device offline', () => {
    const driven = online();
    const step = driven.send(revoke());
    expect(driven.value).toEqual({ administration: 'revoked', link: 'offline' });
    expect(step.outputs).toEqual([
      { type: 'device.presence', tenantId: TENANT, deviceId: DEVICE, online: false, at: T0 + HOUR },
      { type: 'keys.end', deviceId: DEVICE, status: 'revoked', at: T0 + HOUR },
      { type: 'session.end', tenantId: TENANT, deviceId: DEVICE, reason: 'the device is revoked' },
      {
        type: 'commands.tell',
        deviceId: DEVICE,
        event: { type: 'device.revoked', deviceId: DEVICE },
        revokedAt: T0 + HOUR,
      },
    ]);
  });

  it('keeps the home and the room, also after a reinstatement', () => {
    const driven = revoked();
    expect(driven.context).toMatchObject({ fixed: { homeId: HOME, roomId: ROOM } });
    driven.send(reinstate(2));
    expect(driven.context).toMatchObject({ fixed: { homeId: HOME, roomId: ROOM } });
  });

  it('ends the grace period and its timer', () => {
    const driven = registered();
    driven.send(rotate(2, T0));
    const step = driven.send(revoke());
    expect(step.timers).toEqual([{ clear: GRACE_TIMER }]);
    expect(driven.context.fixed.grace).toBeNull();
    expect(driven.send({ type: GRACE_TIMER, at: T0 + GRACE })).toEqual(NOTHING);
  });

  it('takes effect once', () => {
    expect(revoked().send(revoke())).toEqual(NOTHING);
  });

  it('makes the device ignore messages', () => {
    const driven = revoked();
    const messages: DeviceEvent[] = [
      report(1, { on: true }),
      ack(1),
      { type: 'hello.received', at: T0, header: header(1), firmware: '2' },
      { type: 'heartbeat.received', at: T0, header: header(1) },
      { type: 'message.rejected', at: T0, header: header(1), code: 'PAYLOAD_INVALID' },
      { type: 'presence.lost', at: T0 },
    ];
    for (const message of messages) expect(driven.send(message), message.type).toEqual(NOTHING);
  });

  it('makes operations on active devices refused', () => {
    const driven = revoked();
    expect(refusalOf(driven, rotate(2, T0))).toEqual({ code: 'DEVICE_REVOKED', detail: 'The device is revoked.' });
    expect(
      refusalOf(driven, { type: 'manifest.register', at: T0, manifest: manifest(1), expectedVersion: 1 }).code,
    ).toBe('DEVICE_REVOKED');
    expect(refusalOf(driven, { type: 'manifest.update', at: T0, manifest: manifest(1), expectedVersion: 1 }).code).toBe(
      'DEVICE_REVOKED',
    );
  });
});

describe('a reinstatement', () => {
  it('creates a key with the next version and an empty replay window; the history continues', () => {
    const driven = online();
    driven.send(revoke());
    const step = driven.send(reinstate(2));
    expect(step.outputs).toEqual([{ type: 'key.put', deviceId: DEVICE, key: key(2) }]);
    expect(driven.value).toEqual({ administration: { active: 'one_key' }, link: 'offline' });
    expect(driven.context).toMatchObject({
      fixed: { keyVersion: 2 },
      live: { state: { on: true }, stateVersion: 1, replay: { highest: 0 } },
    });
    driven.send(report(1, { on: false }, { header: header(1, 'm1', 2) }));
    expect(driven.context.live.stateVersion).toBe(2);
  });

  it('refuses messages verified by an earlier key, with used and unused numbers, and stays offline', () => {
    const driven = online();
    driven.send(revoke());
    driven.send(reinstate(2));
    for (const message of messagesUnder(1)) expect(driven.send(message), message.type).toEqual(NOTHING);
    driven.reload();
    for (const message of messagesUnder(1)) expect(driven.send(message), message.type).toEqual(NOTHING);
    for (const message of messagesUnder(2)) expect(driven.send(message).outputs, message.type).not.toEqual([]);
  });

  it('refuses messages verified by a key that was in its grace period at the revocation', () => {
    const driven = registered();
    driven.send(rotate(2, T0));
    driven.send(revoke());
    driven.send(reinstate(3));
    for (const version of [1, 2]) {
      for (const message of messagesUnder(version)) expect(driven.send(message), message.type).toEqual(NOTHING);
    }
  });

  it('uses the algorithm of the new key', () => {
    const driven = revoked();
    driven.send({ ...reinstate(2), key: key(2, { signingAlg: 'ed25519' }) });
    expect(driven.context.fixed.signingAlg).toBe('ed25519');
  });

  it('never uses a key version again', () => {
    const driven = revoked();
    expect(refusalOf(driven, reinstate(1)).code).toBe('CONFLICT');
    expect(refusalOf(driven, reinstate(3)).code).toBe('CONFLICT');
  });

  it('is refused for an active device', () => {
    expect(refusalOf(registered(), reinstate(2))).toEqual({
      code: 'ILLEGAL_TRANSITION',
      detail: 'The device is active. Revoke it first.',
    });
  });
});

describe('a message under an earlier key', () => {
  const accepted = { type: 'message.accepted', repeat: false };

  it('is accepted until the grace period of the key ends', () => {
    const driven = online();
    driven.send(rotate(2, T0));
    expect(driven.send(report(2, { on: false })).outputs).toContainEqual(accepted);
    expect(driven.send(report(3, { on: true }, { header: header(3, 'm3', 2) })).outputs).toContainEqual(accepted);
    driven.fire();
    for (const message of messagesUnder(1)) expect(driven.send(message), message.type).toEqual(NOTHING);
    expect(driven.send(report(4, { on: false }, { header: header(4, 'm4', 2) })).outputs).toContainEqual(accepted);
  });

  it('is refused after a second rotation, which ends the grace period', () => {
    const driven = online();
    driven.send(rotate(2, T0));
    driven.send(rotate(3, T0 + HOUR));
    for (const message of messagesUnder(1)) expect(driven.send(message), message.type).toEqual(NOTHING);
    expect(driven.send(report(2, { on: false }, { header: header(2, 'm2', 2) })).outputs).toContainEqual(accepted);
  });
});

describe('a deletion', () => {
  it('is possible for revoked devices, and final', () => {
    const driven = registered();
    expect(refusalOf(driven, { type: 'delete', at: T0 }).code).toBe('ILLEGAL_TRANSITION');
    driven.send(revoke());
    expect(driven.send({ type: 'delete', at: T0 })).toEqual({ same: false, outputs: [], timers: [] });
    expect(driven.value).toEqual({ administration: 'deleted', link: 'offline' });
    const later: DeviceEvent[] = [
      register(),
      reinstate(2),
      revoke(),
      rotate(2, T0),
      report(1, {}),
      { type: 'patch', at: T0, changes: { name: 'x' } },
      { type: 'delete', at: T0 },
    ];
    for (const event of later) expect(driven.send(event), event.type).toEqual(NOTHING);
  });
});
