import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { SigningAlg } from '../../src/domain/device-key.ts';
import { parseJson } from '../../src/domain/json/strict.ts';
import { acceptSequence, emptyWindow, judgeSequence } from '../../src/domain/replay-window.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import { type CanonicalFields, canonicalPayload, canonicalString, payloadHash } from '../../src/protocol/canonical.ts';
import { checkCloudMessage, checkMessage, composeMessage } from '../../src/protocol/envelope.ts';
import { parseSessionToken, sessionCredentials, verifySession } from '../../src/protocol/session-token.ts';
import { publicKeyFromSeed, signingKey, signText, verifyingKey, verifyText } from '../../src/protocol/signature.ts';
import type { DeviceChannel } from '../../src/protocol/topics.ts';
import { checkWithFallback } from './fast-path-messages.ts';

interface Vector {
  name: string;
  direction: 'device to cloud' | 'cloud to device' | 'CONNECT';
  device_secret: string;
  payload: JsonObject;
  canonical_payload: string;
  fields: CanonicalFields;
  canonical_string: string;
  hmac_sha256: string;
  ed25519: string;
  ed25519_public_key: string;
  envelope_hmac?: string;
  answers?: string;
  connect?: { client_identifier: string; username: string; password_hmac: string; password_ed25519: string };
}
interface RefusalVector {
  name: string;
  code: string;
  session: {
    device_id: string;
    tenant_id: string;
    client_id: string;
    channel: DeviceChannel;
    now: number;
    key_version: number;
    device_secret: string;
  };
  message: string;
}
interface Vectors {
  service_ed25519_seed: string;
  vectors: Vector[];
  refusals: RefusalVector[];
  /** Messages whose hash is over the bytes of the payload, which are not its canonical form. */
  hashed_as_sent: (Omit<RefusalVector, 'code'> & { payload_text: string })[];
}

const folder = new URL('../vectors/', import.meta.url);
const file = JSON.parse(readFileSync(new URL('proto-3.1.json', folder), 'utf8')) as Vectors;

/** The seed of the Ed25519 key that signs the vector: the device's, or the service's for messages from the cloud. */
const seedOf = (vector: Vector) =>
  vector.direction === 'cloud to device' ? file.service_ed25519_seed : vector.device_secret;

const sessionOf = (fields: CanonicalFields) => ({
  deviceId: fields.device_id,
  tenantId: fields.tenant_id,
  clientId: fields.client_id,
});

const outgoing = (vector: Vector, alg: SigningAlg) => ({
  ...sessionOf(vector.fields),
  messageId: vector.fields.message_id,
  requestId: vector.fields.request_id,
  sequence: vector.fields.sequence_number,
  timestamp: vector.fields.timestamp,
  nonce: vector.fields.nonce,
  type: vector.fields.message_type as DeviceChannel,
  payload: vector.payload,
  keyVersion: 1,
  key: signingKey(alg, alg === 'ed25519' ? seedOf(vector) : vector.device_secret),
});

describe.each(file.vectors)('worked example $name', (vector) => {
  it('has the canonical payload and its hash', () => {
    expect(canonicalPayload(vector.payload)).toBe(vector.canonical_payload);
    expect(payloadHash(vector.payload)).toBe(vector.fields.payload_hash);
  });

  it('has the canonical string', () => {
    expect(canonicalString(vector.fields)).toBe(vector.canonical_string);
  });

  it('is signed by HMAC-SHA256 with the ASCII bytes of the secret', () => {
    expect(signText(signingKey('hmac-sha256', vector.device_secret), vector.canonical_string)).toBe(vector.hmac_sha256);
    const key = verifyingKey('hmac-sha256', vector.device_secret);
    expect(verifyText(key, vector.canonical_string, vector.hmac_sha256)).toBe(true);
    expect(verifyText(key, `${vector.canonical_string} `, vector.hmac_sha256)).toBe(false);
  });

  it('is signed by Ed25519 with the seed of its direction', () => {
    expect(publicKeyFromSeed(seedOf(vector))).toBe(vector.ed25519_public_key);
    expect(signText(signingKey('ed25519', seedOf(vector)), vector.canonical_string)).toBe(vector.ed25519);
    const key = verifyingKey('ed25519', vector.ed25519_public_key);
    expect(verifyText(key, vector.canonical_string, vector.ed25519)).toBe(true);
    expect(verifyText(key, `${vector.canonical_string} `, vector.ed25519)).toBe(false);
  });
});

describe.each(file.vectors.filter((vector) => vector.connect))('sign-in of $name', (vector) => {
  const { connect, fields } = vector;
  it.each(['hmac-sha256', 'ed25519'] as const)('is created and verified with %s', (alg) => {
    const device = { ...sessionOf(fields), key: signingKey(alg, vector.device_secret) };
    const password = alg === 'ed25519' ? connect?.password_ed25519 : connect?.password_hmac;
    const credentials = sessionCredentials(device, fields.timestamp, fields.nonce);
    expect(credentials).toEqual({ clientId: connect?.client_identifier, username: connect?.username, password });
    const token = parseSessionToken(credentials.clientId);
    expect(token).toMatchObject({ deviceId: fields.device_id, timestamp: fields.timestamp, nonce: fields.nonce });
    if (token === null) throw new Error('no token');
    const text = alg === 'ed25519' ? vector.ed25519_public_key : vector.device_secret;
    const key = verifyingKey(alg, text);
    expect(verifySession(token, fields.tenant_id, credentials.password, key)).toBe(true);
    expect(verifySession(token, fields.device_id, credentials.password, key)).toBe(false);
  });
});

describe.each(file.vectors.filter((vector) => vector.direction === 'device to cloud'))('message $name', (vector) => {
  const { fields } = vector;
  it('passes every check and keeps its payload', () => {
    const session = { ...sessionOf(fields), key: verifyingKey('hmac-sha256', vector.device_secret), keyVersion: 1 };
    const channel = fields.message_type as DeviceChannel;
    const { message_id, sequence_number, timestamp } = fields;
    const text = vector.envelope_hmac as string;
    const expected = {
      ok: true,
      fields: { message_id, sequence_number, timestamp },
      payload: vector.payload,
      keyVersion: 1,
      content: { ok: true, value: { channel, payload: vector.payload } },
    };
    expect(checkMessage(text, session, channel, timestamp)).toEqual(expected);
    const bytes = Buffer.from(text);
    const checked = checkMessage(bytes, session, channel, timestamp);
    expect(checked).toMatchObject(expected);
    expect(checkWithFallback(bytes, session, channel, timestamp)).toEqual(checked);
  });

  it('passes with Ed25519 in a session of that algorithm', () => {
    const session = { ...sessionOf(fields), key: verifyingKey('ed25519', vector.ed25519_public_key), keyVersion: 1 };
    const text = composeMessage(outgoing(vector, 'ed25519'));
    expect(JSON.parse(text).signature).toBe(vector.ed25519);
    const bytes = Buffer.from(text);
    expect(checkMessage(bytes, session, fields.message_type as DeviceChannel, fields.timestamp).ok).toBe(true);
  });

  it('is composed with the same content', () => {
    const text = composeMessage(outgoing(vector, 'hmac-sha256'));
    expect(JSON.parse(text)).toEqual(JSON.parse(vector.envelope_hmac as string));
  });
});

describe.each(file.vectors.filter((vector) => vector.direction === 'cloud to device'))('answer $name', (vector) => {
  const { fields } = vector;
  it.each(['hmac-sha256', 'ed25519'] as const)('is composed by the cloud and accepted by the device with %s', (alg) => {
    const text = composeMessage(outgoing(vector, alg));
    if (alg === 'hmac-sha256') expect(JSON.parse(text)).toEqual(JSON.parse(vector.envelope_hmac as string));
    const keyText = alg === 'ed25519' ? vector.ed25519_public_key : vector.device_secret;
    const session = { ...sessionOf(fields), keys: [verifyingKey(alg, keyText)] };
    const checked = checkCloudMessage(text, session, fields.timestamp);
    expect(checked).toMatchObject({
      ok: true,
      fields,
      content: { ok: true, value: { type: fields.message_type, payload: vector.payload } },
    });
    if (vector.answers !== undefined) expect(fields.request_id).toBe(vector.answers);
  });
});

describe('refused messages', () => {
  it.each(file.refusals)('$name gets $code', ({ code, session, message }) => {
    const receiver = {
      deviceId: session.device_id,
      tenantId: session.tenant_id,
      clientId: session.client_id,
      key: verifyingKey('hmac-sha256', session.device_secret),
      keyVersion: session.key_version,
    };
    const bytes = Buffer.from(message);
    const checked = checkMessage(bytes, receiver, session.channel, session.now);
    expect(checkWithFallback(bytes, receiver, session.channel, session.now)).toEqual(checked);
    const sent = JSON.parse(message) as CanonicalFields;
    if (checked.ok) {
      const { fields, content } = checked;
      const verdict = judgeSequence(emptyWindow(), fields.sequence_number, fields.message_id);
      expect(verdict).toBe('fresh');
      expect(acceptSequence(emptyWindow(), fields.sequence_number, fields.message_id).highest).toBe(
        fields.sequence_number,
      );
      expect(code).toBe('PAYLOAD_INVALID');
      expect(content.ok).toBe(false);
    } else {
      expect(checked).toMatchObject({ code, messageId: sent.message_id });
      expect(checked.signatureValid).toBe(code !== 'SIGNATURE_INVALID');
    }
  });
});

describe('messages with the hash of the bytes sent', () => {
  it.each(file.hashed_as_sent)('$name', ({ session, message, payload_text: text }) => {
    const ids = { deviceId: session.device_id, tenantId: session.tenant_id, clientId: session.client_id };
    const key = verifyingKey('hmac-sha256', session.device_secret);
    const receiver = { ...ids, key, keyVersion: session.key_version };
    const { channel, now } = session;
    const payload = JSON.parse(text) as JsonObject;
    expect(canonicalPayload(payload)).not.toBe(text);
    const checked = checkMessage(Buffer.from(message), receiver, channel, now);
    expect(checked).toMatchObject({ ok: true, payload, content: { ok: true } });
    expect(checkWithFallback(Buffer.from(message), receiver, channel, now)).toEqual(checked);
    const changed = Buffer.from(message.replace(text, canonicalPayload(payload)));
    expect(checkMessage(changed, receiver, channel, now)).toMatchObject({ code: 'PAYLOAD_HASH_MISMATCH' });
    expect(checkCloudMessage(message, { ...ids, keys: [key] }, now)).toMatchObject({ ok: false });
  });
});

describe('the JCS reference cases', () => {
  it.each(readdirSync(new URL('jcs/input/', folder)))('%s', (name) => {
    const input = parseJson(readFileSync(new URL(`jcs/input/${name}`, folder)));
    const output = readFileSync(new URL(`jcs/output/${name}`, folder), 'utf8');
    if (!input.ok) throw new Error(input.reason);
    expect(canonicalPayload(input.value)).toBe(output.trimEnd());
  });
});
