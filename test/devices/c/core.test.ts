import { execFileSync } from 'node:child_process';
import { createHash, createHmac, createSecretKey } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import { type CanonicalFields, canonicalPayload } from '../../../src/protocol/canonical.ts';
import { checkMessage } from '../../../src/protocol/envelope.ts';
import { parseSessionToken, verifySession } from '../../../src/protocol/session-token.ts';
import { signingKey } from '../../../src/protocol/signature.ts';
import { CoreProcess, compileC, coreSources, fromHex, strictFlags } from '../../support/c-core.ts';

interface Vector {
  name: string;
  direction: 'device to cloud' | 'cloud to device' | 'CONNECT';
  device_secret: string;
  payload: JsonObject;
  canonical_payload: string;
  fields: CanonicalFields;
  envelope_hmac?: string;
  connect?: { client_identifier: string; password_hmac: string };
}

const vectorFolder = new URL('../../vectors/', import.meta.url);
const { vectors } = JSON.parse(readFileSync(new URL('proto-3.1.json', vectorFolder), 'utf8')) as { vectors: Vector[] };
const { gcc, nm } = inject('programs');
const isHere = gcc !== null && nm !== null;
let folder: string;
let core: CoreProcess;
/** The core where the decimal point is a comma. */
let elsewhere: CoreProcess;
/** The core as one object file, for each optimization. */
let objects: string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-c-'));
  if (gcc === null) return;
  const comma = fileURLToPath(new URL('comma-locale.h', import.meta.url));
  core = await CoreProcess.start(gcc, folder);
  elsewhere = await CoreProcess.start(gcc, mkdtempSync(join(folder, 'comma-')), ['-include', comma]);
  objects = ['-O2', '-Os'].map((optimization) => join(folder, `core${optimization}.o`));
  for (const [index, object] of objects.entries())
    await compileC(gcc, [
      ...strictFlags,
      index === 0 ? '-O2' : '-Os',
      '-r',
      '-nostdlib',
      '-o',
      object,
      ...coreSources(),
    ]);
});
afterAll(() => {
  core?.stop();
  elsewhere?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const canonical = async (text: string | Uint8Array): Promise<string> => {
  const [word] = await core.call('canonical', text);
  return word === 'failed' ? 'failed' : fromHex(word);
};
const number = async (value: number): Promise<string> => {
  const bits = Buffer.alloc(8);
  bits.writeDoubleBE(value);
  const [word] = await core.call('number', bits.toString('hex'));
  return word === 'failed' ? 'failed' : fromHex(word);
};

describe.runIf(isHere)('the core of a device in C', () => {
  it('allocates nothing, has no variables, and calls only a few functions of the C library', () => {
    for (const object of objects) {
      const symbols = execFileSync(nm ?? '', [object], { encoding: 'utf8' })
        .trim()
        .split('\n');
      const named = (kinds: RegExp) =>
        symbols.filter((line) => kinds.test(line.slice(17, 18))).map((line) => line.slice(19));
      const allowed = ['memcmp', 'memcpy', 'memmove', 'memset', 'snprintf', 'strchr', 'strlen', 'strtod'];
      expect(named(/U/).filter((name) => !allowed.includes(name) && name !== '_GLOBAL_OFFSET_TABLE_')).toEqual([]);
      expect(named(/T/)).toContain('tk_verify');
      // Initialized, uninitialized and common variables.
      expect(named(/[BbCDdGgSs]/)).toEqual([]);
    }
  });

  it.each(vectors)('composes or verifies the worked example $name', async (vector) => {
    const { fields, device_secret: secret } = vector;
    const identity = [fields.tenant_id, fields.device_id, secret] as const;
    const random = Buffer.from(fields.nonce, 'base64url');
    expect(await canonical(JSON.stringify(vector.payload))).toBe(vector.canonical_payload);
    if (vector.direction === 'CONNECT') {
      const [result, clientId, password] = await core.call('session', ...identity, fields.timestamp, random);
      expect(result).toBe('OK');
      expect(fromHex(clientId)).toBe(vector.connect?.client_identifier);
      expect(fromHex(password)).toBe(vector.connect?.password_hmac);
    } else if (vector.direction === 'device to cloud') {
      const [result, composed] = await core.call(
        'compose',
        ...identity,
        ...[fields.client_id, fields.message_type, fields.message_id, fields.sequence_number, fields.timestamp],
        ...[random, vector.canonical_payload, 4096],
      );
      expect(result).toBe('OK');
      expect(JSON.parse(fromHex(composed))).toEqual(JSON.parse(vector.envelope_hmac ?? ''));
    } else {
      const message = vector.envelope_hmac ?? '';
      const [result, sequence, timestamp, payload] = await core.call(
        'verify',
        ...identity,
        ...[fields.client_id, fields.timestamp, message],
      );
      expect([result, Number(sequence), Number(timestamp)]).toEqual(['OK', fields.sequence_number, fields.timestamp]);
      expect(JSON.parse(fromHex(payload))).toEqual(vector.payload);
    }
  });

  it.each(readdirSync(new URL('jcs/input/', vectorFolder)))('writes %s of RFC 8785 in canonical form', async (name) => {
    const input = readFileSync(new URL(`jcs/input/${name}`, vectorFolder));
    const output = readFileSync(new URL(`jcs/output/${name}`, vectorFolder), 'utf8');
    expect(await canonical(input)).toBe(output.trimEnd());
  });

  // FIPS 180-4 examples of NIST, and lengths around the limits of a block.
  it.each([
    ['', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
    ['abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'],
    [
      'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
      '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1',
    ],
    [
      'abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu',
      'cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1',
    ],
  ])('hashes the example %j of NIST', async (text, digest) => {
    expect((await core.call('sha256', text))[0]).toBe(digest);
  });

  it('hashes a million times "a" as NIST, and texts of all lengths around a block as Node.js', async () => {
    const [million] = await core.call('repeated', 'a', 1_000_000);
    expect(million).toBe('cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0');
    for (let length = 0; length <= 200; length++) {
      const bytes = Buffer.alloc(length, length);
      expect((await core.call('sha256', bytes))[0]).toBe(createHash('sha256').update(bytes).digest('hex'));
    }
  });

  it('computes HMACs as RFC 4231 has them, also with a key longer than a block', async () => {
    const cases = [
      [Buffer.alloc(20, 0x0b), 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
      ['Jefe', 'what do ya want for nothing?', '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'],
      [
        Buffer.alloc(131, 0xaa),
        'Test Using Larger Than Block-Size Key - Hash Key First',
        '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
      ],
    ] as const;
    for (const [key, text, tag] of cases) expect((await core.call('hmac', key, text))[0]).toBe(tag);
    for (const length of [0, 1, 63, 64, 65, 200]) {
      const key = Buffer.alloc(length, 7);
      const tag = createHmac('sha256', key).update('text').digest('hex');
      expect((await core.call('hmac', key, 'text'))[0]).toBe(tag);
    }
  });

  it('writes base64url without padding, and UUIDs of version 4', async () => {
    for (let length = 0; length < 70; length++) {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 37 + length) & 255));
      expect(fromHex((await core.call('base64url', bytes))[0])).toBe(bytes.toString('base64url'));
    }
    const [uuid] = await core.call('uuid', Buffer.alloc(16, 0xff));
    expect(fromHex(uuid)).toBe('ffffffff-ffff-4fff-bfff-ffffffffffff');
  });

  it('writes every power of two, and its neighbours, with the digits of ECMAScript', async () => {
    const bits = new DataView(new ArrayBuffer(8));
    const neighbour = (value: number, by: bigint): number => {
      bits.setFloat64(0, value);
      bits.setBigUint64(0, bits.getBigUint64(0) + by);
      return bits.getFloat64(0);
    };
    const values = Array.from({ length: 1_074 + 1_024 }, (_, i) => 2 ** (i - 1_074)).flatMap((value) => [
      ...[value, neighbour(value, 1n), neighbour(value, -1n)],
    ]);
    expect(await Promise.all(values.map(number))).toEqual(values.map(String));
  });

  it('writes the numbers that need care', async () => {
    const values = [
      ...[0, 25, -1, 0.1, 1e21, 1e-6, 1e-7, 123456789012345680000, 999999999999999900000, 1.5e300, 5e-324, -5e-324],
      ...[
        Number.MAX_VALUE,
        Number.MIN_VALUE,
        Number.MAX_SAFE_INTEGER,
        2 ** 53,
        4.35,
        0.000001,
        333333333.3333333,
        1e23,
      ],
      ...[9.5e-7, 2.2250738585072014e-308, 2.225073858507201e-308, 1 / 3, 100, 1e20, 1.7976931348623157e308],
    ];
    expect(await Promise.all(values.map(number))).toEqual(values.map(String));
    expect(await number(-0)).toBe('0');
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      expect(await number(value)).toBe('failed');
    for (const text of ['0', '-1', '9223372036854775807', '-9223372036854775808'])
      expect(fromHex((await core.call('integer', text))[0])).toBe(text);
  });

  it('reads numbers of any length, correctly rounded', async () => {
    const halfway = (2n ** 53n + 1n).toString();
    const texts = [
      ...['25.0', '2.5e1', '-0', '-0.0', '1e-400', '0.0000000000000000000000001', `${halfway}.${'0'.repeat(900)}1`],
      ...[
        halfway,
        `${halfway}.${'0'.repeat(900)}`,
        `1${'0'.repeat(308)}`,
        `0.${'0'.repeat(900)}1e900`,
        `${'9'.repeat(900)}e-900`,
      ],
      ...[
        '2.4703282292062327208e-324',
        '2.4703282292062328e-324',
        '17976931348623157e292',
        '1E+2',
        `1${'0'.repeat(2_000)}e-1999`,
      ],
    ];
    const bits = Buffer.alloc(8);
    for (const text of texts) {
      bits.writeDoubleBE(JSON.parse(text));
      expect([text, (await core.call('parse', text))[0]]).toEqual([text, bits.toString('hex')]);
    }
    for (const text of [
      '1e309',
      `1${'0'.repeat(309)}`,
      '01',
      '1.',
      '.5',
      '+1',
      '1e',
      '- 1',
      '0x1',
      'NaN',
      '1e99999999999999999999',
    ])
      expect([text, await canonical(text)]).toEqual([text, 'failed']);
  });

  it('does not depend on the decimal point of the locale', async () => {
    expect(fromHex((await elsewhere.call('canonical', '[25.50, 1.25e-7, 0.1]'))[0])).toBe('[25.5,1.25e-7,0.1]');
  });

  it('refuses every text that is not strict JSON', async () => {
    const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    const refused = [
      ...[
        '',
        ' ',
        '{',
        '}',
        '[',
        '[1',
        '[1,',
        '[1,]',
        '[,1]',
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{a:1}',
        "{'a':1}",
        '{"a" 1}',
      ],
      ...[
        '"',
        '"a',
        '"\\',
        '"\\x"',
        '"\\u12"',
        '"\\u123g"',
        '"\\u0000"',
        '"\\ud800"',
        '"\\udc00"',
        '"\\ud800\\u0041"',
        '"\\ud800x"',
      ],
      ...[
        '"\t"',
        '"\u0000"',
        '\u0000',
        'tru',
        'truex',
        'nul',
        'true false',
        '1 2',
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        nested(33),
      ],
      ...['\ufeff{}', '[1]]', '{"a":1}}', '{"a":{"b":1,"b":1}}', `[${nested(32)}]`],
    ];
    for (const text of refused) expect([text, await canonical(text)]).toEqual([text, 'failed']);
    const bytes = [
      '22ff22',
      '22c0af22',
      '22e0809f22',
      '22eda08022',
      '22f4908080 22',
      '22f822',
      '22c3',
      '22e28222',
      '22f0808080 22',
    ];
    for (const text of bytes)
      expect([text, await canonical(Buffer.from(text.replace(' ', ''), 'hex'))]).toEqual([text, 'failed']);
    expect(await canonical(nested(32))).toBe(nested(32));
    expect(await canonical(' \t\r\n[ true , null,"\\/\\u20ac\\ud83d\\ude00", {"b":1 ,"a":[ ]} ]\n')).toBe(
      '[true,null,"/€😀",{"a":[],"b":1}]',
    );
  });

  it('reads strings and elements, and reports one that does not fit', async () => {
    const text = '"\\u00e9\\n\\ud83d\\ude00"';
    const decoded = 'é\n😀';
    const size = Buffer.byteLength(decoded) + 1;
    expect(fromHex((await core.call('decoded', text, size))[0])).toBe(decoded);
    expect(await core.call('decoded', text, size - 1)).toEqual(['failed']);
    expect(await core.call('decoded', '12', 10)).toEqual(['failed']);
    expect(fromHex((await core.call('element', '[1, {"a": 2} , "x"]', 1))[0])).toBe('{"a": 2}');
    expect(await core.call('element', '[1]', 1)).toEqual(['failed']);
    expect(await core.call('element', '{"a":1}', 0)).toEqual(['failed']);
  });

  it('accepts each number of the service once, within 64 of the highest', async () => {
    const [accepted] = await core.call('window', 1, 1, 3, 2, 2, 100, 37, 36, 0, 99, 99, 164, 100);
    expect(accepted).toBe('1011011001010');
  });

  const device = { tenant: 'tenant', id: 'device', secret: 'secret-of-the-device' };
  const compose = (payload: string, more: { id?: string; type?: string; tenant?: string; capacity?: number } = {}) =>
    core.call(
      'compose',
      ...[more.tenant ?? device.tenant, device.id, device.secret, 'client', more.type ?? 'state', more.id ?? 'm-1'],
      ...[7, 1_764_000_000_000, Buffer.alloc(12, 1), payload, more.capacity ?? 4096],
    );

  it('composes only what the service accepts, in the memory that it has', async () => {
    const [result, composed = ''] = await compose('{"state": {"temperature": 25.0}}');
    expect(result).toBe('OK');
    const length = composed.length / 2;
    expect(await compose('{"state": {"temperature": 25.0}}', { capacity: length + 1 })).toEqual(['OK', composed]);
    for (const capacity of [0, 1, 100, length])
      expect(await compose('{"state": {"temperature": 25.0}}', { capacity })).toEqual(['NO_SPACE']);
    for (const payload of ['', '[]', '1', '{', '{"a":1,"a":1}'])
      expect(await compose(payload)).toEqual(['INVALID_ARGUMENT']);
    for (const more of [{ id: '' }, { id: 'a|b' }, { id: 'x'.repeat(257) }, { tenant: 'a|b' }, { type: 'a|b' }])
      expect(await compose('{}', more)).toEqual(['INVALID_ARGUMENT']);
  });

  it('composes messages whose bytes are hashed as they are sent, which the service verifies', async () => {
    for (const payload of ['{"state": {"temperature": 25.0, "at": 2.5e1}}', ' {"state":{"b":1,"a":"\\u00e9"}}\n']) {
      const [, composed] = await compose(payload);
      const session = { deviceId: device.id, tenantId: device.tenant, clientId: 'client', keyVersion: 1 };
      const key = { alg: 'hmac-sha256', material: createSecretKey(device.secret, 'utf8') } as const;
      const checked = checkMessage(fromHex(composed), { ...session, key }, 'state', 1_764_000_000_000);
      expect(checked).toMatchObject({ ok: true, payload: JSON.parse(payload), fields: { sequence_number: 7 } });
    }
  });

  it('opens sessions that the service verifies', async () => {
    const [tenant, id] = ['0195d9a2-7f00-7000-8000-000000000002', '0195d9a2-7f00-7000-8000-000000000001'];
    const secret = Buffer.alloc(32, 3).toString('base64url');
    const [result, clientId, password] = await core.call(
      'session',
      tenant,
      id,
      secret,
      1_764_000_000_000,
      Buffer.alloc(12, 255),
    );
    expect(result).toBe('OK');
    const token = parseSessionToken(fromHex(clientId));
    expect(token).not.toBeNull();
    if (token !== null)
      expect(verifySession(token, tenant, fromHex(password), signingKey('hmac-sha256', secret))).toBe(true);
    expect(await core.call('session', tenant, 'x'.repeat(120), secret, 1, Buffer.alloc(12))).toEqual(['NO_SPACE']);
    expect(await core.call('session', 'a|b', id, secret, 1, Buffer.alloc(12))).toEqual(['INVALID_ARGUMENT']);
  });

  it('writes topics, and reports one that does not fit', async () => {
    const topic = 'proto/tenant/device/device/cmd';
    const write = (capacity: number) => core.call('topic', device.tenant, device.id, device.secret, 'cmd', capacity);
    expect(fromHex((await write(topic.length + 1))[1])).toBe(topic);
    expect(await write(topic.length)).toEqual(['NO_SPACE']);
  });

  it('escapes strings as RFC 8785', async () => {
    const text = Array.from({ length: 0x2ff }, (_, i) => String.fromCodePoint(i + 1)).join('');
    expect(fromHex((await core.call('string', `${text}\u2028😀`))[0])).toBe(JSON.stringify(`${text}\u2028😀`));
    expect(await core.call('string', Buffer.from('ff', 'hex'))).toEqual(['failed']);
    expect(await canonical(`{"\u20ac":1,"\ud83d\ude00":2,"\ufb33":3,"a\\u0001":4}`)).toBe(
      canonicalPayload({ '\u20ac': 1, '\ud83d\ude00': 2, '\ufb33': 3, 'a\u0001': 4 }),
    );
  });
});
