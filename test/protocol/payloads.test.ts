import { describe, expect, it } from 'vitest';
import { spanLength } from '../../src/domain/json/span.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { canonicalPayload } from '../../src/protocol/canonical.ts';
import { readCloudPayload, readDevicePayload, type StatePayload, stateSpan } from '../../src/protocol/payloads.ts';
import type { CloudMessageType, DeviceChannel } from '../../src/protocol/topics.ts';
import { spanText } from '../support/json-span.ts';
import { fc } from '../support/properties.ts';

const id = '1dc02e27-b71e-7588-ae84-66c1c85990d2';
const cmd = { command_id: id, action: 'turn_on', params: {}, issued_at: 1, expires_at: 2 };
const helloAck = {
  server_time: 1,
  last_sequence: 0,
  heartbeat_s: 60,
  key_version: 1,
  cloud_public_keys: ['rQLPViPhI9Ma9_ddhEWLdTuqNzAqua1MQSmsZk5AIEw'],
};

describe("a device's payload", () => {
  it.each<[DeviceChannel, JsonObject]>([
    ['hello', { protocol: 'PROTO/3.1' }],
    ['hello', { protocol: 'PROTO/3.1', firmware: '', device_type: 'x', manifest_version: 0, uptime_s: 0.5 }],
    ['heartbeat', {}],
    ['heartbeat', { uptime_s: 0, rssi: -61.5, battery: 0, free_heap: 0 }],
    ['heartbeat', { battery: 100 }],
    ['state', { state: {} }],
    ['state', { state: { a: null }, full: false }],
    ['cmd_ack', { command_id: id, status: 'accepted' }],
    ['cmd_ack', { command_id: 'no uuid', status: 'in_progress', progress: 0.5 }],
    ['cmd_ack', { command_id: id, status: 'succeeded', result: null, state: {} }],
    ['cmd_ack', { command_id: id, status: 'failed', error: 'jammed', result: [1] }],
  ])('on %s is valid: %j', (channel, payload) => {
    expect(readDevicePayload(channel, payload)).toEqual({ ok: true, value: { channel, payload } });
    const more = { ...payload, something_else: [1], toString: 'x' };
    expect(readDevicePayload(channel, more)).toEqual({ ok: true, value: { channel, payload: more } });
  });

  it.each<[DeviceChannel, JsonObject, string]>([
    ['hello', {}, 'protocol is missing'],
    ['hello', { protocol: 'PROTO/3.0' }, 'protocol is not valid'],
    ['hello', { protocol: ['PROTO/3.1'] }, 'protocol is not valid'],
    ['hello', { protocol: 'PROTO/3.1', firmware: 1 }, 'firmware is not valid'],
    ['hello', { protocol: 'PROTO/3.1', firmware: null }, 'firmware is not valid'],
    ['hello', { protocol: 'PROTO/3.1', device_type: {} }, 'device_type is not valid'],
    ['hello', { protocol: 'PROTO/3.1', manifest_version: '1' }, 'manifest_version is not valid'],
    ['hello', { protocol: 'PROTO/3.1', manifest_version: 1.5 }, 'manifest_version is not valid'],
    ['hello', { protocol: 'PROTO/3.1', manifest_version: -1 }, 'manifest_version is not valid'],
    ['hello', { protocol: 'PROTO/3.1', uptime_s: -1 }, 'uptime_s is not valid'],
    ['heartbeat', { uptime_s: '1' }, 'uptime_s is not valid'],
    ['heartbeat', { rssi: '-60' }, 'rssi is not valid'],
    ['heartbeat', { battery: 100.5 }, 'battery is not valid'],
    ['heartbeat', { battery: -1 }, 'battery is not valid'],
    ['heartbeat', { battery: '50' }, 'battery is not valid'],
    ['heartbeat', { free_heap: -1 }, 'free_heap is not valid'],
    ['state', {}, 'state is missing'],
    ['state', { state: null }, 'state is not valid'],
    ['state', { state: [] }, 'state is not valid'],
    ['state', { state: 'on' }, 'state is not valid'],
    ['state', { state: {}, full: 1 }, 'full is not valid'],
    ['cmd_ack', { status: 'accepted' }, 'command_id is missing'],
    ['cmd_ack', { command_id: 1, status: 'accepted' }, 'command_id is not valid'],
    ['cmd_ack', { command_id: id }, 'status is missing'],
    ['cmd_ack', { command_id: id, status: 'done' }, 'status is not valid'],
    ['cmd_ack', { command_id: id, status: 'accepted', progress: '50%' }, 'progress is not valid'],
    ['cmd_ack', { command_id: id, status: 'failed', error: { code: 1 } }, 'error is not valid'],
    ['cmd_ack', { command_id: id, status: 'succeeded', state: [] }, 'state is not valid'],
  ])('on %s is refused: %j', (channel, payload, reason) => {
    expect(readDevicePayload(channel, payload)).toEqual({ ok: false, reason });
  });

  it('does not inherit members from __proto__', () => {
    const payload = JSON.parse('{"__proto__":{"state":{}}}') as JsonObject;
    expect(readDevicePayload('state', payload)).toEqual({ ok: false, reason: 'state is missing' });
  });
});

describe("the cloud's payload", () => {
  it.each<[CloudMessageType, JsonObject]>([
    ['cmd', cmd],
    ['hello_ack', helloAck],
    ['hello_ack', { ...helloAck, cloud_public_keys: [] }],
    ['error', { code: 'MALFORMED', message_id: '' }],
  ])('%s is valid: %j', (type, payload) => {
    expect(readCloudPayload(type, payload)).toEqual({ ok: true, value: { type, payload } });
  });

  it.each<[CloudMessageType, JsonObject, string]>([
    ['cmd', { ...cmd, command_id: 1 }, 'command_id is not valid'],
    ['cmd', { ...cmd, action: null }, 'action is not valid'],
    ['cmd', { ...cmd, params: [] }, 'params is not valid'],
    ['cmd', { ...cmd, issued_at: '1' }, 'issued_at is not valid'],
    ['cmd', { ...cmd, expires_at: -1 }, 'expires_at is not valid'],
    ['hello_ack', { ...helloAck, server_time: 'now' }, 'server_time is not valid'],
    ['hello_ack', { ...helloAck, last_sequence: -1 }, 'last_sequence is not valid'],
    ['hello_ack', { ...helloAck, heartbeat_s: 0 }, 'heartbeat_s is not valid'],
    ['hello_ack', { ...helloAck, heartbeat_s: '60' }, 'heartbeat_s is not valid'],
    ['hello_ack', { ...helloAck, key_version: 1.5 }, 'key_version is not valid'],
    ['hello_ack', { ...helloAck, cloud_public_keys: 'x' }, 'cloud_public_keys is not valid'],
    ['hello_ack', { ...helloAck, cloud_public_keys: [1] }, 'cloud_public_keys is not valid'],
    ['error', { code: 1, message_id: '' }, 'code is not valid'],
    ['error', { code: 'MALFORMED' }, 'message_id is missing'],
  ])('%s is refused: %j', (type, payload, reason) => {
    expect(readCloudPayload(type, payload)).toEqual({ ok: false, reason });
  });
});

describe('the text of a reported state', () => {
  it('is in the canonical form of its payload, and measured there', () => {
    const state = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ stringUnit: 'grapheme' }));
    const flag = fc.constantFrom({}, { full: true }, { full: false });
    fc.assert(
      fc.property(state, flag, (state, full) => {
        const payload = JSON.parse(JSON.stringify({ ...full, state })) as StatePayload;
        const canonical = Buffer.from(canonicalPayload(payload as unknown as JsonObject));
        for (const bytes of [canonical, new Uint8Array(canonical)]) {
          const span = stateSpan(payload, bytes);
          if (span === undefined) throw new Error('not found');
          expect(spanText(span)).toBe(canonicalPayload(payload.state));
          expect(spanLength(span)).toBe(Buffer.byteLength(spanText(span)));
        }
      }),
    );
  });

  it.each([
    '{"a":1,"state":{}}',
    '{"full":true,"state":{},"z":1}',
    '{"full":true,"g":1,"state":{}}',
    '{"state":{},"z":1}',
    '{"__proto__":1,"state":{}}',
  ])('is not taken from a payload with unknown members: %s', (text) => {
    expect(stateSpan(JSON.parse(text) as StatePayload, Buffer.from(text))).toBeUndefined();
  });
});
