import { describe, expect, it } from 'vitest';
import { judgeSequence } from '../../src/domain/replay-window.ts';
import type { DeviceColumns } from '../../src/machines/actor-columns.ts';
import { changeFixed } from '../../src/machines/decision.ts';
import { administrationOf, deviceDefinition, isOnline } from '../../src/machines/device-record.ts';
import type { DeviceContext, DeviceEvent } from '../../src/machines/device-types.ts';
import { flatContext } from '../support/stored-context.ts';
import type { Driven } from './machine-driver.ts';
import {
  ack,
  blankDevice,
  HOME,
  HOUR,
  header,
  key,
  manifest,
  other,
  ROOM,
  register,
  registered,
  report,
  T0,
  TENANT,
} from './samples.ts';

type Device = Driven<DeviceContext, DeviceEvent>;
const { journal, columns, toStored, fromStored } = deviceDefinition;

const rotate: DeviceEvent = { type: 'rotate', at: T0, by: other, key: key(2), graceUntil: T0 + 24 * HOUR };
const revoke: DeviceEvent = { type: 'revoke', at: T0, by: other, reason: 'stolen' };
const having = (...events: DeviceEvent[]): Device => {
  const driven = registered();
  for (const event of events) driven.send(event);
  return driven;
};
/** The journal entry of `event`. */
const noteOf = (driven: Device, event: DeviceEvent) => {
  const before = driven.asSnapshot();
  driven.send(event);
  return journal(event, before, driven.asSnapshot());
};

describe('the status of a device', () => {
  it.each([
    ['unregistered', blankDevice(), false],
    ['active', registered(), false],
    ['active', having(rotate, report(1, {})), true],
    ['revoked', having(report(1, {}), revoke), false],
    ['deleted', having(revoke, { type: 'delete', at: T0 }), false],
  ] as const)('is %s', (word, driven, isNow) => {
    expect(administrationOf(driven.asSnapshot())).toBe(word);
    expect(isOnline(driven.asSnapshot())).toBe(isNow);
    expect(deviceDefinition.canPassivate(driven.asSnapshot())).toBe(word === 'deleted');
  });
});

describe('the record of a device', () => {
  it('is loaded from the store unchanged, including its replay window', () => {
    const driven = having(rotate, report(1, { on: true, list: [1, null] }), report(3, {}), {
      type: 'hello.received',
      at: T0,
      header: header(4),
      firmware: '1.0.0',
    });
    const { context, value } = driven;
    driven.reload();
    expect(driven.context).toEqual(context);
    expect(driven.value).toEqual(value);
    expect(judgeSequence(driven.context.live.replay, 3, 'm3')).toBe('repeat');
    expect(judgeSequence(driven.context.live.replay, 3, 'other')).toBe('reused');
    expect(judgeSequence(driven.context.live.replay, 2, 'm2')).toBe('fresh');
    expect(deviceDefinition.tenantOf(context)).toBe(TENANT);
  });

  it('is also loaded with an Ed25519 key', () => {
    const driven = registered({ key: key(1, { signingAlg: 'ed25519' }) });
    driven.reload();
    expect(driven.context.fixed.signingAlg).toBe('ed25519');
  });

  it('contains no key', () => {
    expect(JSON.stringify(toStored(registered().context))).not.toContain('sealed');
  });

  it('refuses a stored context that does not fit', () => {
    const stored = flatContext(toStored(registered().context));
    expect(() => fromStored(stored)).not.toThrow();
    for (const wrong of [
      { state: [] },
      { state: null },
      { stateVersion: -1 },
      { stateVersion: 1.5 },
      { keyVersion: '1' },
      { grace: {} },
      { signingAlg: 'none' },
      { homeId: 'home' },
      { replay: { highest: 0, slots: 'AAAA' } },
      { more: 1 },
    ]) {
      expect(() => fromStored({ ...stored, ...wrong } as never), JSON.stringify(wrong)).toThrow();
    }
  });

  it('has the columns that queries need', () => {
    const expected: DeviceColumns = {
      device_type: 'smart_light',
      home_id: HOME,
      room_id: ROOM,
      category: 'light',
      firmware: null,
      revoked: false,
      deleted: false,
      online: false,
      created_at: T0,
    };
    expect(columns(registered().asSnapshot())).toEqual(expected);
    expect(columns(having(report(1, {})).asSnapshot())).toEqual({ ...expected, online: true });
    const gone = { ...expected, revoked: true };
    expect(columns(having(revoke).asSnapshot())).toEqual(gone);
    expect(columns(having(revoke, { type: 'delete', at: T0 }).asSnapshot())).toEqual({ ...gone, deleted: true });
  });

  it('is transient for heartbeats only', () => {
    const soft = (event: DeviceEvent) => deviceDefinition.isTransient(event);
    expect(soft({ type: 'heartbeat.received', at: T0, header: header(1) })).toBe(true);
    expect(soft(report(1, {}))).toBe(false);
  });

  it('shows an administrator the listed fields only', () => {
    const shown = deviceDefinition.toAdminView(having(report(5, { on: true })).context);
    expect(shown).toMatchObject({ last_sequence: 5, state_bytes: 11, state: { on: true } });
    expect(shown).not.toHaveProperty('replay');
    expect(shown.reported_at).toBe(new Date(T0 + 1_000).toISOString());
    expect(
      deviceDefinition.toAdminView({
        ...having().context,
        ...changeFixed(having().context, { sealedSecret: 'x' } as object),
      }),
    ).not.toHaveProperty('sealedSecret');
  });
});

describe('the journal of a device', () => {
  it('contains actions of users, without a secret', () => {
    const driven = blankDevice();
    driven.send(register());
    expect(journal(register(), null, driven.asSnapshot())).toEqual({
      data: {
        device_type: 'smart_light',
        category: 'light',
        home_id: HOME,
        room_id: ROOM,
        key_version: 1,
        signing_alg: 'hmac-sha256',
        manifest_version: 1,
      },
    });
    expect(noteOf(driven, { type: 'patch', at: T0, changes: { name: 'Lamp', roomId: null } })).toStrictEqual({
      data: { name: 'Lamp', room_id: null },
    });
    expect(noteOf(driven, { type: 'patch', at: T0, changes: { homeId: HOME, metadata: { a: 1 } } })).toEqual({
      data: { home_id: HOME, metadata: { a: 1 } },
    });
    expect(noteOf(driven, rotate)).toEqual({
      data: { key_version: 2, signing_alg: 'hmac-sha256', grace_until: T0 + 24 * HOUR },
    });
    expect(noteOf(driven, { type: 'manifest.register', at: T0, manifest: manifest(1), expectedVersion: 1 })).toEqual({
      data: { manifest_version: 2, actions: ['turn_on'] },
    });
    const change = { id: 'c', digest: 'd', weaker: ['x'], requestedBy: { kind: 'user' as const, id: 'u' } };
    expect(
      noteOf(driven, { type: 'manifest.update', at: T0, manifest: manifest(1), expectedVersion: 2, change }),
    ).toEqual({
      data: {
        ...{ manifest_version: 3, actions: ['turn_on'] },
        change: { id: 'c', digest: 'd', requested_by: 'u', weaker: ['x'] },
      },
    });
    expect(noteOf(driven, revoke)).toEqual({ data: { reason: 'stolen' } });
    expect(noteOf(driven, { type: 'reinstate', at: T0, reason: 'found', key: key(3) })).toEqual({
      data: { reason: 'found', key_version: 3, signing_alg: 'hmac-sha256' },
    });
    expect(noteOf(driven, { type: 'revoke', at: T0 })).toStrictEqual({ data: {} });
    expect(noteOf(driven, { type: 'delete', at: T0 })).toEqual({ data: {} });
  });

  it("contains the end of a key's grace period", () => {
    const driven = having(rotate);
    const before = driven.asSnapshot();
    const [event] = [...driven.running.values()].map((timer) => timer.event);
    driven.fire();
    expect(journal({ type: event as string, at: T0 }, before, driven.asSnapshot())).toEqual({
      data: { key_version: 1 },
    });
  });

  it('contains nothing of refused events', () => {
    expect(noteOf(registered(), { type: 'reinstate', at: T0, reason: 'x', key: key(2) })).toBeNull();
  });

  it('contains no telemetry', () => {
    const telemetry: DeviceEvent[] = [
      report(1, { on: true }),
      ack(2),
      { type: 'hello.received', at: T0, header: header(1), firmware: '1.0.0' },
      { type: 'heartbeat.received', at: T0, header: header(3) },
      { type: 'message.rejected', at: T0, header: header(4), code: 'PAYLOAD_INVALID' },
      { type: 'presence.lost', at: T0 },
    ];
    const driven = registered();
    for (const event of telemetry) expect(noteOf(driven, event), event.type).toBeNull();
  });
});
