import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { checkJson } from '../../src/domain/json/strict.ts';
import { type FieldSchema, type FieldSchemas, toJsonSchema } from '../../src/domain/message-schema.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { checkMessage, composeMessage } from '../../src/protocol/envelope.ts';
import { envelopeSchema } from '../../src/protocol/envelope-schema.ts';
import { cloudPayloads, devicePayloads, readCloudPayload, readDevicePayload } from '../../src/protocol/payloads.ts';
import { newDeviceSecret, signingKey, verifyingKey } from '../../src/protocol/signature.ts';
import { cloudMessageTypes, deviceChannels } from '../../src/protocol/topics.ts';
import { expectReached, fc, runs } from '../support/properties.ts';

// A validator that is independent of the service; formats are documentation only.
const ajv = new Ajv2020({ strict: false, validateFormats: false, unicode: false, logger: false } as object);
const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>,
  fc.constantFrom<Json>(
    -1,
    0,
    0.5,
    1,
    100,
    100.5,
    2 ** 53 - 1,
    2 ** 53,
    '',
    '|',
    'PROTO/3.1',
    'accepted',
    {},
    [],
    null,
  ),
);

/** Mostly values that the field accepts, sometimes invalid ones. */
function likely(field: FieldSchema): fc.Arbitrary<Json> {
  switch (field.type) {
    case 'boolean':
      return fc.boolean();
    case 'object':
      return fc.constantFrom<Json>({}, { a: null }, { a: { b: [1] } });
    case 'string':
      return field.enum === undefined ? fc.string() : fc.constantFrom(...field.enum);
    case 'array':
      return fc.array(likely(field.items), { maxLength: 3 });
    case undefined:
      return anything;
    default:
      return fc.oneof(
        { weight: 8, arbitrary: fc.integer({ min: field.type === 'integer' ? 1 : 0, max: 100 }) },
        { weight: 1, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
      );
  }
}

/** Objects similar to the fields: most members valid, some invalid, missing or unknown. */
const near = (fields: FieldSchemas): fc.Arbitrary<JsonObject> =>
  fc
    .tuple(
      fc.record(
        Object.fromEntries(
          Object.entries(fields).map(([name, field]) => [
            name,
            fc.oneof({ weight: 12, arbitrary: likely(field) }, { weight: 1, arbitrary: anything }),
          ]),
        ),
      ),
      fc.subarray(Object.keys(fields)),
      fc.dictionary(fc.string(), anything, { maxKeys: 2 }),
      fc.boolean(),
    )
    .map(([known, dropped, unknown, whole]) => {
      const all: JsonObject = { ...unknown, ...(known as JsonObject) };
      if (!whole) for (const name of dropped) delete all[name];
      return all;
    })
    .filter((value) => checkJson(value).ok);

const shapes = [
  ...deviceChannels.map((name) => ({
    name,
    shape: devicePayloads[name],
    read: (p: JsonObject) => readDevicePayload(name, p),
  })),
  ...cloudMessageTypes.map((name) => ({
    name,
    shape: cloudPayloads[name],
    read: (p: JsonObject) => readCloudPayload(name, p),
  })),
];

describe.each(shapes)('the schema of a $name payload', ({ shape, read }) => {
  it('accepts exactly the payloads that the code accepts', () => {
    const validate = ajv.compile(toJsonSchema(shape));
    const seen = { right: 0, wrong: 0 };
    fc.assert(
      fc.property(near({ ...shape.required, ...shape.optional } as FieldSchemas), (payload) => {
        const { ok } = read(payload);
        seen[ok ? 'right' : 'wrong']++;
        expect(validate(payload)).toBe(ok);
      }),
      runs(300),
    );
    expectReached(() => expect(Math.min(seen.right, seen.wrong)).toBeGreaterThan(20));
  });
});

describe("the envelope's schema", () => {
  const secret = newDeviceSecret();
  const session = {
    deviceId: 'd',
    tenantId: 't',
    clientId: 'c',
    key: verifyingKey('hmac-sha256', secret),
    keyVersion: 1,
  };
  const message = JSON.parse(
    composeMessage({
      ...{ deviceId: 'd', tenantId: 't', clientId: 'c', messageId: 'm', requestId: '', sequence: 1, timestamp: 1 },
      ...{ nonce: 'n', type: 'state', payload: { state: {} }, keyVersion: 1, key: signingKey('hmac-sha256', secret) },
    }),
  ) as JsonObject;
  const validate = ajv.compile(envelopeSchema);
  const isWellFormed = (sent: JsonObject): boolean => {
    const checked = checkMessage(JSON.stringify(sent), session, 'state', 1);
    return checked.ok || checked.code !== 'MALFORMED';
  };
  const odd = fc.oneof(
    anything,
    fc.string(),
    fc.constantFrom<Json>('x'.repeat(256), 'x'.repeat(257), 'a|b', '😀'.repeat(128), '😀'.repeat(129)),
  );

  it('accepts exactly the envelopes that the code accepts', () => {
    const names = fc.constantFrom(...Object.keys(message), 'something_else');
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(names, fc.option(odd, { nil: undefined })), { maxLength: 3 }), (changes) => {
        const sent: JsonObject = { ...message };
        for (const [name, value] of changes) {
          if (value === undefined) delete sent[name];
          else sent[name] = value;
        }
        fc.pre(checkJson(sent).ok);
        expect(validate(sent)).toBe(isWellFormed(sent));
      }),
      runs(500),
    );
  });
});
