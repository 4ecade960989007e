import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import { sha256Hex } from '../../src/protocol/canonical.ts';
import { checkMessage, composeMessage } from '../../src/protocol/envelope.ts';
import { fastPathSession } from '../../src/protocol/fast-path.ts';
import { newDeviceSecret, publicKeyFromSeed, signingKey, verifyingKey } from '../../src/protocol/signature.ts';
import { type DeviceChannel, deviceChannels } from '../../src/protocol/topics.ts';
import { fc } from '../support/properties.ts';
import {
  checkWithFallback,
  ids,
  longWay,
  membersOf,
  message,
  now,
  plain,
  plainly,
  secret,
  sent,
  session,
  verifier,
  written,
} from './fast-path-messages.ts';

describe('the fast path accepts', () => {
  it('messages composed by this project, on every channel', () => {
    const payloads: Record<DeviceChannel, JsonObject> = {
      hello: { protocol: 'PROTO/3.1' },
      heartbeat: {},
      state: { full: true, state: {} },
      cmd_ack: { command_id: 'x', status: 'failed', result: [{ a: -1 }] },
    };
    for (const channel of deviceChannels) {
      const bytes = Buffer.from(composeMessage({ ...message, type: channel, payload: payloads[channel] }));
      const taken = verifier.verify(bytes, plain, channel, now);
      expect(taken).toMatchObject({ payload: payloads[channel], content: { ok: true, value: { channel } } });
      expect(taken).toEqual(checkMessage(bytes, session, channel, now));
      for (const other of deviceChannels.filter((name) => name !== channel)) {
        expect(verifier.verify(bytes, plain, other, now)).toBeNull();
      }
    }
  });

  it('members in any order', () => {
    const members = [...membersOf(composeMessage(message))];
    fc.assert(
      fc.property(fc.shuffledSubarray(members, { minLength: members.length }), (order) => {
        expect(plainly(written(order))).not.toBeNull();
      }),
    );
  });

  it.each<[string, Record<string, string>]>([
    ['an id of 256 characters', { message_id: `"${'x'.repeat(256)}"` }],
    ['an id of one', { message_id: '"~"' }],
    ['a request', { request_id: `"${' '.repeat(256)}"` }],
    ['no nonce', { nonce: '""' }],
    ['the number 0', { sequence_number: '0' }],
    ['a number of 15 digits', { sequence_number: '999999999999999' }],
    ['the oldest timestamp', { timestamp: `${now - 300_000}` }],
    ['the newest', { timestamp: `${now + 300_000}` }],
  ])('%s', (_, change) => {
    expect(plainly(sent(change))).not.toBeNull();
  });

  it('an invalid payload, to be judged after the sequence number', () => {
    const payload = '{"state":1}';
    expect(plainly(sent({ payload, payload_hash: JSON.stringify(sha256Hex(payload)) }))).toMatchObject({
      content: { ok: false },
    });
  });

  it('a message of any length up to its buffer, and reads nothing outside it', () => {
    for (const length of [15_000, 15_500, 15_550, 15_600, 16_300, 16_384, 20_000, 70_000]) {
      const bytes = Buffer.from(composeMessage({ ...message, payload: { state: { a: 'x'.repeat(length) } } }));
      expect(plainly(bytes) !== null).toBe(bytes.length <= 16_384);
      expect(longWay(bytes).ok).toBe(true);
      for (const end of [200, 16_382, 16_383, 16_384]) {
        expect(plainly(Buffer.concat([bytes.subarray(0, end), Buffer.from('}')]))).toBeNull();
      }
    }
  });
});

describe('the fast path reads nothing outside its buffer', () => {
  it('for a message that fills it and ends in any of its members', () => {
    const id = 'x'.repeat(256);
    const long = { ...session, deviceId: id, tenantId: id, clientId: id };
    const known = fastPathSession(long) as NonNullable<typeof plain>;
    for (const [name, value] of membersOf(composeMessage(message))) {
      const label = `"${name}":${value.startsWith('"') ? '"' : ''}`;
      for (let shown = 1; shown <= label.length; shown += 1) {
        const end = `",${label.slice(0, shown)}}`;
        const begin = '{"message_id":"';
        const bytes = Buffer.from(`${begin}${'x'.repeat(16_384 - begin.length - end.length)}${end}`);
        expect(verifier.verify(bytes, known, 'state', now)).toBeNull();
        expect(verifier.verify(bytes.subarray(0, -1), known, 'state', now)).toBeNull();
      }
    }
  });
});

describe('the fast path leaves to full verification', () => {
  const hashOf = (payload: string) => ({ payload, payload_hash: JSON.stringify(sha256Hex(payload)) });
  it.each<[string, Record<string, string>, boolean]>([
    ['a number with an exponent', { sequence_number: '1e3' }, true],
    ['one with a fraction', { sequence_number: '3.0' }, true],
    ['one of 16 digits', { sequence_number: '9007199254740991' }, true],
    ['one that no double holds', { sequence_number: '9007199254740993' }, false],
    ['one below nothing', { sequence_number: '-1' }, false],
    ['-0', { sequence_number: '-0' }, true],
    ['a zero in front', { sequence_number: '03' }, false],
    ['a text for a number', { sequence_number: '"3"' }, false],
    ['no number', { timestamp: '' }, false],
    ['a timestamp too early', { timestamp: `${now - 300_001}` }, false],
    ['a timestamp too late', { timestamp: `${now + 300_001}` }, false],
    ['another version of the key', { key_version: '1' }, false],
    ['version 0 of the key', { key_version: '0' }, false],
    ['a zero in front of it', { key_version: '02' }, false],
    ['another protocol', { version: '"PROTO/3.0"' }, false],
    ['a longer one', { version: '"PROTO/3.10"' }, false],
    ['another device', { device_id: '"27801375-decf-7c9f-9486-5636b85993a8"' }, false],
    ['another tenant', { tenant_id: '"6d84cc79-2141-7060-8fe2-7ff9c7fda17"' }, false],
    ['another client', { client_id: '"27801375-decf-7c9f-9486-5636b85993a7.1763635700272.QgRGsRIsuQPsFA_q"' }, false],
    ['another type', { message_type: '"heartbeat"' }, false],
    ['a type that begins so', { message_type: '"states"' }, false],
    ['no id', { message_id: '""' }, false],
    ['an id that is too long', { message_id: `"${'x'.repeat(257)}"` }, false],
    ['a request that is too long', { request_id: `"${'x'.repeat(257)}"` }, false],
    ['a nonce that is too long', { nonce: `"${'x'.repeat(257)}"` }, false],
    ['a | in an id', { message_id: '"a|b"' }, false],
    ['a | in a request', { request_id: '"|"' }, false],
    ['a | in a nonce', { nonce: '"a|"' }, false],
    ['an escape', { message_id: '"\\u0061"' }, true],
    ['an escaped quote', { message_id: '"a\\"b"' }, true],
    ['a letter beyond ASCII', { message_id: '"é"' }, true],
    ['DEL', { nonce: '"\u007f"' }, true],
    ['a control character', { nonce: '"\u001f"' }, false],
    ['null', { request_id: 'null' }, false],
    ['a further member', { extra: '1' }, true],
    ['a payload with white space', hashOf('{"state":{}, "x":1}'), true],
    ['a payload that is a list', hashOf('[]'), false],
    ['a payload that is not JSON', hashOf('{"state":{"a":tru!}}'), false],
    ['a payload with a number that is none', hashOf('{"state":{"a":01}}'), false],
    ['a payload with a control character', hashOf('{"state":{"a":"\n"}}'), false],
    ['a payload in the wrong order', hashOf('{"state":{"b":1,"a":1}}'), true],
    ['a payload with a key twice', hashOf('{"state":{"a":1,"a":1}}'), false],
    ['a payload that is nested too deeply', hashOf(`{"state":${'{"a":'.repeat(31)}1${'}'.repeat(31)}}`), false],
    ['another hash', { payload_hash: `"${sha256Hex('{}')}"` }, false],
    ['a longer hash', { payload_hash: `"${sha256Hex('{}')}0"` }, false],
  ])('%s', (_, change, isTaken) => {
    for (const as of ['written', 'meant'] as const) {
      const bytes = sent(change, as);
      expect(plainly(bytes)).toBeNull();
      if (as === 'meant') expect(longWay(bytes).ok).toBe(isTaken);
      expect(checkWithFallback(bytes, session, 'state', now)).toEqual(longWay(bytes));
    }
  });

  it('a hash in upper case, and a signature in another encoding', () => {
    const members = membersOf(composeMessage(message));
    const hash = (members.get('payload_hash') as string).toUpperCase();
    expect(plainly(sent({ payload_hash: hash }))).toBeNull();
    const signature = members.get('signature') as string;
    for (const other of [`${signature.slice(0, -1)}="`, `"A${signature.slice(1)}`, '""', `"${signature.slice(2)}`]) {
      expect(plainly(written(new Map(members).set('signature', other)))).toBeNull();
    }
  });

  it('repeated, missing and misspelled members', () => {
    const members = [...membersOf(composeMessage(message))];
    for (const [index, [name, value]] of members.entries()) {
      for (const at of [0, index, members.length]) {
        expect(plainly(written(members.toSpliced(at, 0, [name, value])))).toBeNull();
      }
      expect(plainly(written(members.toSpliced(index, 1)))).toBeNull();
      for (const other of [
        `${name}s`,
        name.slice(1),
        name.toUpperCase(),
        `\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}`,
      ]) {
        expect(plainly(written(members.toSpliced(index, 1, [other, value])))).toBeNull();
      }
    }
  });

  it('white space in any place', () => {
    const members = [...membersOf(composeMessage({ ...message, payload: { state: { on: true } } }))];
    const pieces = members.flatMap(([name, value]) => [`"${name}"`, ':', value, ',']).slice(0, -1);
    for (let at = 0; at <= pieces.length; at += 1) {
      const bytes = Buffer.from(`{${pieces.toSpliced(at, 0, ' ').join('')}}`);
      expect(plainly(bytes)).toBeNull();
      expect(longWay(bytes).ok).toBe(true);
    }
    const text = `{${pieces.join('')}}`;
    expect(plainly(Buffer.from(text))).not.toBeNull();
    for (const other of [` ${text}`, `${text} `, `\ufeff${text}`, `${text}}`, `[${text}]`, `${text.slice(0, -1)},}`]) {
      expect(plainly(Buffer.from(other))).toBeNull();
    }
  });

  it('every message with a byte changed, removed or inserted, or cut off there', () => {
    const bytes = Buffer.from(composeMessage(message));
    for (let at = 0; at <= bytes.length; at += 1) {
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
      for (const other of [0x00, 0x20, 0x22, 0x2c, 0x30, 0x5c, 0x61, 0x7c, 0x7d, 0xc3, 0xff]) {
        if (other !== bytes[at])
          expect(plainly(Buffer.concat([before, Buffer.of(other), after.subarray(1)]))).toBeNull();
        const longer = Buffer.concat([before, Buffer.of(other), after]);
        if (!longer.equals(bytes)) expect(plainly(longer)).toBeNull();
      }
      if (at === bytes.length) continue;
      expect(plainly(Buffer.concat([before, after.subarray(1)]))).toBeNull();
      // Bytes of the previous, longer message in the buffer are not read.
      expect(plainly(bytes)).not.toBeNull();
      expect(plainly(before)).toBeNull();
      const closed = Buffer.concat([before, Buffer.from('}')]);
      if (!closed.equals(bytes)) expect(plainly(closed)).toBeNull();
    }
    for (const short of ['', '{', '}', '{}', '{"', '{"version":"}']) expect(plainly(Buffer.from(short))).toBeNull();
  });
});

describe('a session supports the fast path', () => {
  it('with an HMAC key and with plain ids within the length limits', () => {
    const publicKey = verifyingKey('ed25519', publicKeyFromSeed(secret));
    expect(fastPathSession({ ...session, key: publicKey })).toBeNull();
    expect(fastPathSession({ ...session, keyVersion: 0 })).toBeNull();
    for (const id of ['', 'abc', 'with"quote', 'back\\slash', 'with|bar', 'Küche', 'line\nbreak', 'x'.repeat(257)]) {
      for (const name of ['deviceId', 'tenantId', 'clientId']) {
        expect(fastPathSession({ ...session, [name]: id })).toBeNull();
      }
    }
    for (const id of ['abcd', 'x'.repeat(256)]) {
      const other = { ...session, deviceId: id, tenantId: id, clientId: id };
      const bytes = Buffer.from(composeMessage({ ...message, deviceId: id, tenantId: id, clientId: id }));
      const known = fastPathSession(other);
      const taken = known && verifier.verify(bytes, known, 'state', now);
      expect(taken).toEqual(checkMessage(bytes, other, 'state', now));
    }
  });

  it('and keeps sessions apart when used in turn', () => {
    const sessions = ['one', 'two'].map((name) => {
      const own = { ...ids, deviceId: `${name}${ids.deviceId.slice(3)}` };
      const secretOf = newDeviceSecret();
      const known = fastPathSession({ ...own, key: verifyingKey('hmac-sha256', secretOf), keyVersion: 2 });
      const bytes = Buffer.from(composeMessage({ ...message, ...own, key: signingKey('hmac-sha256', secretOf) }));
      return { known: known as NonNullable<typeof known>, bytes };
    });
    for (const { known, bytes } of [...sessions, ...sessions]) {
      for (const other of sessions) {
        expect(verifier.verify(other.bytes, known, 'state', now) !== null).toBe(other.bytes === bytes);
      }
    }
  });

  it('and hides its key when it is printed', () => {
    const { key, ...shown } = session;
    const known = { ...shown, plain: fastPathSession({ ...shown, key }) as typeof plain };
    const other = verifyingKey('hmac-sha256', newDeviceSecret());
    const blank = { ...shown, plain: fastPathSession({ ...shown, key: other }) as typeof plain };
    for (const bytes of [known, blank]) {
      const sent = Buffer.from(composeMessage(message));
      expect(verifier.verify(sent, bytes.plain, 'state', now) !== null).toBe(bytes === known);
    }
    expect(inspect(known, { depth: 9, showHidden: true })).toBe(inspect(blank, { depth: 9, showHidden: true }));
    expect(JSON.stringify(known)).toBe(JSON.stringify(blank));
  });
});
