import { createSecretKey } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parseJson } from '../../../src/domain/json/strict.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { canonicalPayload } from '../../../src/protocol/canonical.ts';
import { checkCloudMessage, checkMessage, composeMessage } from '../../../src/protocol/envelope.ts';
import { CoreProcess, fromHex } from '../../support/c-core.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';

/* The core in C against the implementation of the service, on random inputs. */

const { gcc } = inject('programs');
const NOW = 1_764_000_000_000;
const secret = 'ZmlyZSBhbmQgYnJpbXN0b25lLCAzMiBieXRlcyBsb25n';
const key = { alg: 'hmac-sha256', material: createSecretKey(secret, 'utf8') } as const;
const ids = { deviceId: 'device', tenantId: 'tenant', clientId: 'client' };
let folder: string;
let core: CoreProcess;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-c-'));
  if (gcc !== null) core = await CoreProcess.start(gcc, folder);
});
afterAll(() => {
  core?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const text = fc.string({ unit: 'binary', maxLength: 12 }).filter((one) => !one.includes('\0'));
const object = fc
  .object({
    key: text,
    values: [text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean(), fc.constant(null)],
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
const count = fc.nat(Number.MAX_SAFE_INTEGER);

/** Changes of a text: bytes replaced, removed or inserted. */
const changes = fc.array(
  fc.record({
    at: fc.nat(),
    kind: fc.constantFrom('replace', 'remove', 'insert', 'repeat'),
    byte: fc.constantFrom(...Buffer.from('{}[]",:\\u0de19.-+ tfn|\u00e9\u0001')),
  }),
  { maxLength: 3 },
);
type Change = { at: number; kind: string; byte: number };
function changed(bytes: Buffer, list: readonly Change[]): Buffer {
  let result = bytes;
  for (const { at, kind, byte } of list) {
    const index = result.length === 0 ? 0 : at % result.length;
    const [head, tail] = [result.subarray(0, index), result.subarray(kind === 'insert' ? index : index + 1)];
    const middle = kind === 'remove' ? [] : kind === 'repeat' ? [...result.subarray(index, index + 9)] : [byte];
    result = Buffer.concat([head, Buffer.from(middle), tail]);
  }
  return result;
}

describe.runIf(gcc !== null)('the core in C', () => {
  it('writes numbers as ECMAScript', async () => {
    const anyDouble = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    const decimal = fc.tuple(fc.nat(99_999), fc.integer({ min: -12, max: 12 })).map(([n, e]) => Number(`${n}e${e}`));
    const bits = new DataView(new ArrayBuffer(8));
    const drawn = fc.oneof(
      anyDouble,
      fc.oneof(decimal, fc.double()).map((value) => {
        bits.setFloat64(0, value);
        return bits.getBigUint64(0);
      }),
    );
    await fc.assert(
      fc.asyncProperty(drawn, async (pattern) => {
        bits.setBigUint64(0, pattern);
        const value = bits.getFloat64(0);
        const [word] = await core.call('number', pattern.toString(16));
        expect(word === 'failed' ? word : fromHex(word)).toBe(Number.isFinite(value) ? `${value}` : 'failed');
      }),
      runs(2_000),
    );
  });

  it('reads numbers as JSON.parse', async () => {
    const digits = (maxLength: number) =>
      fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength });
    const numbers = fc.tuple(
      fc.constantFrom('', '-'),
      fc.oneof(
        fc.constant('0'),
        digits(40).map((d) => `1${d}`),
      ),
      digits(800),
      fc.integer({ min: -700, max: 330 }),
    );
    const bits = Buffer.alloc(8);
    await fc.assert(
      fc.asyncProperty(numbers, async ([sign, whole, fraction, exponent]) => {
        const written = `${sign}${whole}.${fraction}e${exponent}`;
        bits.writeDoubleBE(JSON.parse(written));
        const expected = Number.isFinite(JSON.parse(written)) ? bits.toString('hex') : 'failed';
        expect(await core.call('parse', written)).toEqual([expected]);
      }),
      runs(500),
    );
  });

  it('accepts the texts that the service accepts, and has the same canonical form of them', async () => {
    let accepted = 0;
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(object, fc.constantFrom(0, 1), changes, async (value, spaces, list) => {
        const bytes = changed(Buffer.from(JSON.stringify(value, null, spaces)), list);
        const parsed = parseJson(bytes);
        const [word] = await core.call('canonical', bytes);
        expect(word === 'failed' ? null : fromHex(word)).toBe(parsed.ok ? canonicalPayload(parsed.value) : null);
        if (parsed.ok) accepted++;
        else refused++;
      }),
      runs(1_000),
    );
    expectReached(() => {
      expect(accepted).toBeGreaterThan(100);
      expect(refused).toBeGreaterThan(100);
    });
  });

  it('composes what the service accepts as canonical or as bytes', async () => {
    const drawn = fc.record({
      state: object,
      canonical: fc.boolean(),
      sequence: count,
      random: fc.uint8Array({ minLength: 12, maxLength: 12 }),
      id: text.filter((one) => one !== '' && !one.includes('|')),
    });
    await fc.assert(
      fc.asyncProperty(drawn, async ({ state, canonical, sequence, random, id }) => {
        const payload = canonical ? canonicalPayload({ state }) : JSON.stringify({ state }, null, 1);
        const [result, composed] = await core.call(
          'compose',
          ...[ids.tenantId, ids.deviceId, secret, ids.clientId, 'state', id, sequence, NOW, random, payload, 100_000],
        );
        expect(result).toBe('OK');
        if (canonical)
          expect(fromHex(composed)).toBe(
            composeMessage({
              ...ids,
              messageId: id,
              requestId: '',
              sequence,
              timestamp: NOW,
              nonce: Buffer.from(random).toString('base64url'),
              type: 'state',
              payload: { state },
              keyVersion: 1,
              key,
            }),
          );
        const checked = checkMessage(Buffer.from(composed ?? '', 'hex'), { ...ids, key, keyVersion: 1 }, 'state', NOW);
        expect(checked).toMatchObject({ ok: true, payload: JSON.parse(payload) });
      }),
      runs(300),
    );
  });

  it('verifies messages of the service with the same result as the device library', async () => {
    const uuid = fc.uuid();
    const payloads = fc.oneof(
      fc.record({
        type: fc.constant('cmd' as const),
        payload: fc.record({ command_id: uuid, action: text, params: object, issued_at: count, expires_at: count }),
      }),
      fc.record({
        type: fc.constant('hello_ack' as const),
        payload: fc.record({
          server_time: count,
          last_sequence: count,
          heartbeat_s: fc.nat(100),
          key_version: count,
          cloud_public_keys: fc.array(text),
        }),
      }),
      fc.record({ type: fc.constant('error' as const), payload: fc.record({ code: text, message_id: text }) }),
      fc.record({ type: fc.constantFrom('cmd' as const, 'error' as const), payload: object }),
      fc.record({ type: fc.constant('state' as const), payload: object }),
    );
    const drawn = fc.record({
      message: payloads,
      clientId: fc.constantFrom('client', 'client', 'client', 'other'),
      tenantId: fc.constantFrom('tenant', 'tenant', 'tenant', 'other'),
      skew: fc.constantFrom(0, 300_000, -300_000, 300_001, -300_001),
      requestId: text.filter((one) => !one.includes('|')),
      sequence: count,
      /** In another order and with white space, which has no meaning: the hash is over the canonical form. */
      rewritten: fc.boolean(),
      list: fc.oneof(fc.constant([]), changes),
    });
    const results = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(drawn, async ({ message, clientId, tenantId, skew, requestId, sequence, rewritten, list }) => {
        const composed = composeMessage({
          ...{ deviceId: 'device', tenantId, clientId, messageId: 'm', requestId, sequence, timestamp: NOW + skew },
          ...{ nonce: 'n', type: message.type, payload: message.payload as unknown as JsonObject, keyVersion: 1, key },
        });
        const reversed = JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(composed)).reverse()), null, 1);
        const bytes = changed(Buffer.from(rewritten ? reversed : composed), list);
        const checked = checkCloudMessage(bytes, { ...ids, keys: [key] }, NOW);
        const expected = !checked.ok ? checked.code : checked.content.ok ? 'OK' : 'PAYLOAD_INVALID';
        const [result, number, timestamp, payload] = await core.call(
          'verify',
          ...[ids.tenantId, ids.deviceId, secret, ids.clientId, NOW, bytes],
        );
        expect(result).toBe(expected);
        results.set(expected, (results.get(expected) ?? 0) + 1);
        if (expected === 'OK' && checked.ok) {
          expect([Number(number), Number(timestamp)]).toEqual([
            checked.fields.sequence_number,
            checked.fields.timestamp,
          ]);
          expect(parseJson(Buffer.from(payload ?? '', 'hex'))).toMatchObject({ ok: true, value: checked.payload });
        }
      }),
      runs(1_000),
    );
    expectReached(() => {
      const codes = [
        'OK',
        'MALFORMED',
        'TYPE_MISMATCH',
        'IDENTITY_MISMATCH',
        'SESSION_MISMATCH',
        'TIMESTAMP_SKEWED',
        'SIGNATURE_INVALID',
        'PAYLOAD_HASH_MISMATCH',
        'PAYLOAD_INVALID',
      ];
      for (const code of codes) expect([code, (results.get(code) ?? 0) > 0]).toEqual([code, true]);
    });
  });
});
