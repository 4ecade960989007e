import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import { type CanonicalFields, canonicalString, payloadHash, sha256Hex } from '../../src/protocol/canonical.ts';
import { checkCloudMessage, checkMessage, composeMessage, type OutgoingMessage } from '../../src/protocol/envelope.ts';
import {
  newDeviceSecret,
  publicKeyFromSeed,
  signingKey,
  signText,
  verifyingKey,
} from '../../src/protocol/signature.ts';
import { checkWithFallback } from './fast-path-messages.ts';

const secret = newDeviceSecret();
const now = 1763635705272;
const ids = {
  deviceId: '27801375-decf-7c9f-9486-5636b85993a7',
  tenantId: '6d84cc79-2141-7060-8fe2-7ff9c7fda173',
  clientId: '27801375-decf-7c9f-9486-5636b85993a7.1763635700272.QgRGsRIsuQPsFA_p',
};
const session = { ...ids, key: verifyingKey('hmac-sha256', secret), keyVersion: 2 };
const message: OutgoingMessage = {
  ...ids,
  messageId: '46635a99-603a-73dd-afb6-9f6dd4ae6af5',
  requestId: '',
  sequence: 3,
  timestamp: now,
  nonce: 'CYROqfAbNJQrwNIQ',
  type: 'state',
  payload: { state: { on: true } },
  keyVersion: 2,
  key: signingKey('hmac-sha256', secret),
};

type Sent = JsonObject & { payload?: JsonObject };

/** A valid message with changes; its hash and signature are computed again unless given. */
function sent(change: Sent = {}): string {
  const whole = { ...(JSON.parse(composeMessage(message)) as JsonObject), ...change };
  const fields = whole as unknown as CanonicalFields;
  if (change.payload_hash === undefined) whole.payload_hash = payloadHash(whole.payload ?? null);
  if (change.signature === undefined) whole.signature = signText(message.key, canonicalString(fields));
  return JSON.stringify(whole);
}

/** Also checks that the fast path gives the same result. */
function check(text: string | Uint8Array, time = now) {
  const bytes = Buffer.from(text);
  expect(checkWithFallback(bytes, session, 'state', time)).toEqual(checkMessage(bytes, session, 'state', time));
  return checkMessage(text, session, 'state', time);
}

describe('checkMessage', () => {
  it('returns the used fields, the payload and the key version', () => {
    const checked = check(sent({ extra: 1 }));
    if (!checked.ok) throw new Error(checked.reason);
    expect(checked).toMatchObject({
      fields: { message_id: message.messageId, sequence_number: 3, timestamp: now },
      payload: { state: { on: true } },
      keyVersion: 2,
      content: { ok: true },
    });
    expect(Object.keys(checked.fields)).toHaveLength(3);
  });

  it('reports an invalid payload for judgement after the sequence number', () => {
    expect(check(sent({ payload: { state: 1 } }))).toMatchObject({
      ok: true,
      content: { ok: false, reason: 'state is not valid' },
    });
  });

  it.each<[string, Sent]>([
    ['version is missing', { version: null }],
    ['device_id is a number', { device_id: 1 }],
    ['tenant_id is null', { tenant_id: null }],
    ['client_id is an object', { client_id: {} }],
    ['message_id is missing', { message_id: null }],
    ['message_id is too long', { message_id: 'x'.repeat(257) }],
    ['request_id is too long', { request_id: 'x'.repeat(257) }],
    ['request_id holds a |', { request_id: '|' }],
    ['message_type is a list', { message_type: ['state'] }],
    ['payload_hash is false', { payload_hash: false }],
    ['nonce is a number', { nonce: 1 }],
    ['sequence_number is negative', { sequence_number: -1 }],
    ['sequence_number is a fraction', { sequence_number: 1.5 }],
    ['sequence_number is not exact', { sequence_number: 2 ** 53 }],
    ['timestamp is a text', { timestamp: String(now) }],
    ['timestamp is a fraction', { timestamp: now + 0.5 }],
    ['payload is a list', { payload: [] as unknown as JsonObject }],
    ['payload is null', { payload: null as unknown as JsonObject }],
    ['key_version is a text', { key_version: '2' }],
    ['key_version is 0', { key_version: 0 }],
    ['signature is a number', { signature: 1 }],
    ['signature is null', { signature: null }],
  ])('MALFORMED: %s', (_, change) => {
    expect(check(sent(change))).toMatchObject({
      ok: false,
      code: 'MALFORMED',
      reason: expect.stringContaining(Object.keys(change)[0] as string),
    });
  });

  it.each(['', 'x', '[]', '1', 'null', '"text"', '{}', '[{}]'])('MALFORMED: the document %j', (text) => {
    expect(check(text)).toMatchObject({ ok: false, code: 'MALFORMED', signatureValid: false });
    expect(check(text)).not.toHaveProperty('messageId');
  });

  it('verifies the signature of text that the strict parser refuses, and repeats its message id', () => {
    const good = sent();
    const refusal = { code: 'MALFORMED', signatureValid: true, messageId: message.messageId };
    expect(check(good.replace('"on":true', '"on":true,"on":true'))).toMatchObject(refusal);
    const broken = Buffer.from(good.replace('"on":true', '"on":"?"'));
    broken[broken.indexOf('"?"') + 1] = 0xff;
    expect(check(broken)).toMatchObject(refusal);
    expect(check(sent({ nonce: 'a|b' }))).toMatchObject(refusal);
    expect(check(sent({ sequence_number: '3' }))).toMatchObject(refusal);
    expect(check(sent({ key_version: 'x' }))).toMatchObject(refusal);
    expect(check(sent({ key_version: 'x', signature: 'A'.repeat(43) }))).toMatchObject({
      ...refusal,
      signatureValid: false,
    });
  });

  it.each<[string, Sent]>([
    ['a field is missing', { nonce: null }],
    ['a field is an object', { nonce: {} }],
  ])('reports an invalid signature if %s', (_, change) => {
    expect(check(sent(change))).toMatchObject({ code: 'MALFORMED', signatureValid: false });
  });

  it.each(['', 'a|b', 'x'.repeat(257), 'a\0', '\ud800', 7, null])('does not repeat the message id %j', (id) => {
    const checked = check(sent({ message_id: id }));
    expect(checked).toMatchObject({ ok: false, code: 'MALFORMED' });
    expect(checked).not.toHaveProperty('messageId');
  });

  it('accepts and repeats the longest message id, and accepts an empty nonce', () => {
    const longest = 'x'.repeat(256);
    expect(check(sent({ message_id: longest, version: '' }))).toMatchObject({ messageId: longest });
    expect(check(sent({ message_id: 'x'.repeat(256), nonce: '' })).ok).toBe(true);
  });

  it.each<[string, Sent]>([
    ['VERSION_UNSUPPORTED', { version: 'PROTO/3.0' }],
    ['TYPE_MISMATCH', { message_type: 'heartbeat' }],
    ['TYPE_MISMATCH', { message_type: 'cmd' }],
    ['IDENTITY_MISMATCH', { tenant_id: '' }],
    ['IDENTITY_MISMATCH', { device_id: ids.tenantId }],
    ['SESSION_MISMATCH', { client_id: `${ids.clientId}x` }],
    ['TIMESTAMP_SKEWED', { timestamp: now - 300_001 }],
    ['TIMESTAMP_SKEWED', { timestamp: now + 300_001 }],
    ['SIGNATURE_INVALID', { key_version: 1 }],
    ['PAYLOAD_HASH_MISMATCH', { payload_hash: payloadHash({}) }],
  ])('%s for %j, with a valid signature', (code, change) => {
    expect(check(sent(change))).toMatchObject({
      ok: false,
      code,
      signatureValid: true,
      messageId: message.messageId,
    });
    expect(check(sent({ ...change, signature: 'A'.repeat(43) }))).toMatchObject({
      code: code === 'PAYLOAD_HASH_MISMATCH' ? 'SIGNATURE_INVALID' : code,
      signatureValid: false,
    });
  });

  it('reports the first of several faults in the order of the checks', () => {
    const faults: [string, Sent][] = [
      ['MALFORMED', { request_id: 'a|b' }],
      ['VERSION_UNSUPPORTED', { version: 'PROTO/2' }],
      ['TYPE_MISMATCH', { message_type: 'hello' }],
      ['IDENTITY_MISMATCH', { device_id: 'x' }],
      ['SESSION_MISMATCH', { client_id: 'x' }],
      ['TIMESTAMP_SKEWED', { timestamp: 0 }],
      ['SIGNATURE_INVALID', { signature: '' }],
      ['PAYLOAD_HASH_MISMATCH', { payload_hash: '' }],
    ];
    for (let i = 0; i < faults.length; i++) {
      const all = Object.assign({}, ...faults.slice(i).map(([, change]) => change)) as Sent;
      expect(check(sent(all))).toMatchObject({ code: faults[i]?.[0] });
    }
  });

  it('accepts a timestamp up to five minutes off, in both directions', () => {
    expect(check(sent({ timestamp: now - 300_000 })).ok).toBe(true);
    expect(check(sent({ timestamp: now + 300_000 })).ok).toBe(true);
  });

  it('rejects an upper-case payload hash', () => {
    const upper = payloadHash({ state: { on: true } }).toUpperCase();
    expect(check(sent({ payload_hash: upper }))).toMatchObject({ code: 'PAYLOAD_HASH_MISMATCH' });
  });

  /** A valid message whose payload is written as `text`, with this hash and a valid signature. */
  function written(text: string, hash: string, decoy = ''): Buffer {
    const { payload: _, ...head } = JSON.parse(sent({ payload_hash: hash })) as JsonObject;
    return Buffer.from(`{${decoy}${JSON.stringify(head).slice(1, -1)},"payload":${text}}`);
  }

  it.each([
    '{"state":{"a":1.0}}',
    '{"state":{"a":1e3}}',
    '{"state":{"a":-0}}',
    '{"state":{"a":0.10}}',
    '{"state":{"a":0.0000001}}',
    '{"state":{"a":12345678901234567890123}}',
    '{"state":{"b":1,"a":1}}',
    '{"state":{"10":1,"2":1,"1":1}}',
    '{"state":{"\ufb33":1,"\ud83d\ude00":1}}',
    '{"state":{"b":1,"__proto__":1}}',
    '{"state":{"a":"\\u0062"}}',
    '{"state":{"\\u0061":1}}',
    '{"state":{"a": 1}}',
    '{ "state":{}}',
    '{"state":{},"full":true}',
  ])(
    'accepts the hash of the canonical form and that of the bytes, and no other, if the payload is written %s',
    (text) => {
      const canonical = payloadHash(JSON.parse(text) as JsonObject);
      expect(canonical).not.toBe(sha256Hex(text));
      for (const hash of [canonical, sha256Hex(text)]) {
        const checked = check(written(text, hash));
        expect(checked).toMatchObject({ ok: true, payload: JSON.parse(text), content: { ok: true } });
        expect(checked).not.toHaveProperty('canonical');
        expect(check(written(text, hash).toString())).toEqual(checked);
        // White space around the payload belongs to the envelope.
        expect(check(written(` ${text}\n`, hash))).toEqual(checked);
      }
      for (const hash of [sha256Hex(` ${text}`), sha256Hex(text).toUpperCase(), '']) {
        expect(check(written(text, hash))).toMatchObject({
          code: 'PAYLOAD_HASH_MISMATCH',
          reason: "payload_hash is neither that of the payload's bytes nor that of its canonical form",
          signatureValid: true,
        });
      }
    },
  );

  it('accepts the hash of the bytes for no other value, and not where strict parsing refuses the message', () => {
    const text = '{"state":{"t":25.0}}';
    expect(check(written('{"state":{"t":25.1}}', sha256Hex(text)))).toMatchObject({ code: 'PAYLOAD_HASH_MISMATCH' });
    expect(check(written('{"state":{"t":25}}', sha256Hex(text)))).toMatchObject({ code: 'PAYLOAD_HASH_MISMATCH' });
    const refused: [string, string][] = [
      ['{"state":{"t":25.0,"t":26.0}}', 'a key is repeated'],
      ['{"state":{"t":1e400}}', 'a number is out of range'],
      ['{"state":{"t":"\\ud800"}}', 'a string contains a lone surrogate'],
      ['{"state":{"t":"\\u0000"}}', 'a string contains U+0000'],
      [`${'{"state":'.repeat(32)}1${'}'.repeat(32)}`, 'nested too deeply'],
    ];
    for (const [payload, reason] of refused) {
      expect(check(written(payload, sha256Hex(payload)))).toMatchObject({ code: 'MALFORMED', reason });
    }
  });

  it('accepts the hash of the bytes in a session with Ed25519', () => {
    const text = '{"state": {"t": 25.0}}';
    const seed = newDeviceSecret();
    const { payload: _, ...head } = JSON.parse(sent({ payload_hash: sha256Hex(text) })) as JsonObject;
    const signature = signText(signingKey('ed25519', seed), canonicalString(head as unknown as CanonicalFields));
    const bytes = Buffer.from(`{"payload":${text},${JSON.stringify({ ...head, signature }).slice(1)}`);
    const key = verifyingKey('ed25519', publicKeyFromSeed(seed));
    expect(checkMessage(bytes, { ...session, key }, 'state', now)).toMatchObject({
      ok: true,
      payload: { state: { t: 25 } },
    });
    const changed = Buffer.from(bytes.toString().replace('25.0', '25.5'));
    expect(checkMessage(changed, { ...session, key }, 'state', now)).toMatchObject({ code: 'PAYLOAD_HASH_MISMATCH' });
  });

  it('accepts only the hash of the canonical form in a message to a device', () => {
    const text = '{"code":"MALFORMED", "message_id":null}';
    const toDevice = (hash: string) => {
      const change = { payload_hash: hash, message_type: 'error' };
      const { payload: _, ...head } = JSON.parse(sent(change)) as JsonObject;
      return Buffer.from(`${JSON.stringify(head).slice(0, -1)},"payload":${text}}`);
    };
    const receiver = { ...ids, keys: [session.key] };
    expect(checkCloudMessage(toDevice(payloadHash(JSON.parse(text))), receiver, now)).toMatchObject({ ok: true });
    expect(checkCloudMessage(toDevice(sha256Hex(text)), receiver, now)).toMatchObject({
      code: 'PAYLOAD_HASH_MISMATCH',
    });
  });

  it.each([
    '{"state":{}}',
    '{"state":{"a":1,"b":[true,null,-0.5,"é"]}}',
    '{"full":false,"state":{"10":1,"2":{"x":"|"}}}',
  ])('accepts only the hash of the bytes of a canonical payload: %s', (text) => {
    expect(check(written(text, sha256Hex(text)))).toMatchObject({
      ok: true,
      payload: JSON.parse(text),
      canonical: Buffer.from(text),
    });
    expect(check(written(text, payloadHash({ state: 1 })))).toMatchObject({
      code: 'PAYLOAD_HASH_MISMATCH',
    });
    expect(check(written(text, sha256Hex(text)).toString()).ok).toBe(true);
  });

  it('uses no other member as the payload', () => {
    const decoy = '{"state":{"decoy":1}}';
    const real = '{"state":{"on":true}}';
    for (const member of [
      `"other":{"payload":${decoy}},`,
      `"other":[{"payload":${decoy}}],`,
      `"x\\"payload":${decoy},`,
      `"xpayload":${decoy},`,
    ]) {
      expect(check(written(real, sha256Hex(real), member))).toMatchObject({ payload: JSON.parse(real) });
      expect(check(written(real, sha256Hex(decoy), member))).toMatchObject({
        code: 'PAYLOAD_HASH_MISMATCH',
      });
    }
    for (const name of ['"payload"', '"p\\u0061yload"']) {
      for (const hash of [sha256Hex(real), sha256Hex(decoy)]) {
        expect(check(written(real, hash, `${name}:${decoy},`))).toMatchObject({
          code: 'MALFORMED',
          reason: 'a key is repeated',
          signatureValid: true,
        });
      }
    }
  });

  it('verifies an HMAC signature with no other algorithm, for any claim of the message', () => {
    const forged = sent({
      alg: 'none',
      signing_alg: 'ed25519',
      signature: signText(signingKey('ed25519', secret), 'x'),
    });
    expect(check(forged)).toMatchObject({ code: 'SIGNATURE_INVALID' });
  });
});

describe('checkCloudMessage', () => {
  const seed = newDeviceSecret();
  const cloud: OutgoingMessage = {
    ...message,
    type: 'error',
    payload: { code: 'MALFORMED', message_id: 'm' },
    key: signingKey('ed25519', seed),
  };
  const old = verifyingKey('ed25519', publicKeyFromSeed(newDeviceSecret()));
  const current = verifyingKey('ed25519', publicKeyFromSeed(seed));

  it('accepts a message signed by any of the announced keys of the cloud', () => {
    const checked = checkCloudMessage(composeMessage(cloud), { ...ids, keys: [old, current] }, now);
    expect(checked).toMatchObject({ ok: true, content: { ok: true, value: { type: 'error' } } });
  });

  it('refuses a message signed by another key, and every message while no key is known', () => {
    for (const keys of [[old], []]) {
      expect(checkCloudMessage(composeMessage(cloud), { ...ids, keys }, now)).toMatchObject({
        code: 'SIGNATURE_INVALID',
        signatureValid: false,
      });
    }
  });

  it('verifies the signature of a refused message with all keys', () => {
    const text = composeMessage({ ...cloud, timestamp: 0 });
    expect(checkCloudMessage(text, { ...ids, keys: [old, current] }, now)).toMatchObject({
      code: 'TIMESTAMP_SKEWED',
      signatureValid: true,
    });
  });

  it('refuses a message of another device, and message types that devices send', () => {
    const text = composeMessage(cloud);
    const keys = [current];
    const another = { ...ids, deviceId: ids.tenantId, keys };
    expect(checkCloudMessage(text, another, now)).toMatchObject({ code: 'IDENTITY_MISMATCH' });
    const own = composeMessage({ ...cloud, type: 'cmd_ack' });
    expect(checkCloudMessage(own, { ...ids, keys }, now)).toMatchObject({ code: 'TYPE_MISMATCH' });
  });

  it('reports a payload of the wrong shape as such', () => {
    const checked = checkCloudMessage(composeMessage({ ...cloud, type: 'cmd' }), { ...ids, keys: [current] }, now);
    expect(checked).toMatchObject({ ok: true, content: { ok: false, reason: 'command_id is missing' } });
  });
});

describe('composeMessage', () => {
  it('never writes a field with a |', () => {
    expect(() => composeMessage({ ...message, requestId: 'a|b' })).toThrow('request_id must not contain |');
    expect(() => composeMessage({ ...message, messageId: '|' })).toThrow('message_id must not contain |');
  });

  it('writes what JSON must escape', () => {
    const text = composeMessage({ ...message, requestId: 'quote " and \\', payload: { state: { 'a"b': '\n☀' } } });
    expect(JSON.parse(text)).toMatchObject({ request_id: 'quote " and \\', payload: { state: { 'a"b': '\n☀' } } });
    expect(check(text).ok).toBe(true);
  });
});
