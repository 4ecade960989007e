import { describe, expect, it } from 'vitest';
import { sha256Hex } from '../../src/protocol/canonical.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import {
  checkWithFallback,
  ids,
  longWay,
  type Members,
  now,
  plainly,
  session,
  signed,
  written,
} from './fast-path-messages.ts';

describe('for random input,', () => {
  const number = (usual: string) =>
    fc.oneof(
      { weight: 80, arbitrary: fc.constant(usual) },
      { weight: 1, arbitrary: fc.constantFrom('0', '01', '1e3', '1.0', '-0', '-1', '00', '', 'null', '"1"', '2E0') },
      { weight: 1, arbitrary: fc.constantFrom('9007199254740991', '9007199254740993', '1'.repeat(15), '1'.repeat(16)) },
      { weight: 1, arbitrary: fc.nat().map(String) },
    );
  const text = (usual: string) =>
    fc.oneof(
      { weight: 80, arbitrary: fc.constant(JSON.stringify(usual)) },
      {
        weight: 1,
        arbitrary: fc.constantFrom('""', '"|"', '"\\u0061"', '"é"', '"\u007f"', '"\u0001"', '1', 'null', '{}'),
      },
      { weight: 1, arbitrary: fc.string({ maxLength: 300 }).map((value) => JSON.stringify(value)) },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }).map((value) => JSON.stringify(value)) },
    );
  const payload = fc.oneof(
    fc.constantFrom('{"state":{"on":true}}', '{"state":{"a":1.5,"b":[null,"é"]}}', '{"full":true,"state":{}}', '{}'),
    fc.constantFrom('{"state":{ }}', '{"state":{"a":1e3}}', '{"state":{"b":1,"a":1}}', '{"state":{"a":-0}}', '[]', '1'),
    fc.constantFrom(
      '{"state":{"a":01}}',
      '{"state":{"a":"\\u0062"}}',
      '{"state":{"a":1,"a":1}}',
      '{"state":tru}',
      '{}}',
    ),
    fc.json({ maxDepth: 3 }).map((value) => `{"state":{"a":${value}}}`),
    fc.stringMatching(/^-?[0-9]{1,17}(\.[0-9]{1,8})?(e-?[0-9])?$/).map((value) => `{"state":{"a":${value}}}`),
  );
  const anyMessage = fc.record({
    version: text('PROTO/3.1'),
    device_id: text(ids.deviceId),
    tenant_id: text(ids.tenantId),
    client_id: text(ids.clientId),
    message_id: text('46635a99-603a-73dd-afb6-9f6dd4ae6af5'),
    request_id: text(''),
    sequence_number: number('3'),
    timestamp: number(`${now}`),
    nonce: text('CYROqfAbNJQrwNIQ'),
    message_type: text('state'),
    payload_hash: fc.constantFrom('', '', '', '', '""', '"x"'),
    key_version: number('2'),
    payload,
  });
  const drawn = fc.record({
    members: anyMessage,
    as: fc.constantFrom('written', 'written', 'meant'),
    order: fc.option(fc.array(fc.nat(13), { maxLength: 6 })),
    beside: fc.constantFrom(
      ...Array(12).fill(null),
      ['extra', '1'],
      ['nonce', '"x"'],
      ['payload', '{}'],
      ['paylo\\u0061d', '{}'],
    ),
    twist: fc.option(
      fc.record({ at: fc.nat(), byte: fc.nat(255), how: fc.constantFrom('flip', 'put in', 'leave out', 'cut off') }),
      { freq: 2 },
    ),
  });

  it('the fast path accepts nothing that full verification refuses, and reads it the same', () => {
    let taken = 0;
    let refused = 0;
    fc.assert(
      fc.property(drawn, ({ members: { payload, ...fields }, as, order, beside: extra, twist: mutation }) => {
        const whole: Members = new Map([...Object.entries(fields), ['payload', payload]]);
        if (fields.payload_hash === '') whole.set('payload_hash', JSON.stringify(sha256Hex(payload)));
        const list = [...signed(whole, as as 'written' | 'meant')];
        for (const at of order ?? []) list.push(...list.splice(at % list.length, 1));
        if (extra !== null) list.splice((mutation?.at ?? 0) % list.length, 0, extra as [string, string]);
        let bytes = written(list);
        if (mutation !== null) {
          const at = mutation.at % bytes.length;
          const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
          if (mutation.how === 'flip') bytes = Buffer.concat([before, Buffer.of(mutation.byte), after.subarray(1)]);
          else if (mutation.how === 'put in') bytes = Buffer.concat([before, Buffer.of(mutation.byte), after]);
          else if (mutation.how === 'leave out') bytes = Buffer.concat([before, after.subarray(1)]);
          else bytes = Buffer.from(before);
        }
        const long = longWay(bytes);
        if (plainly(bytes) !== null) taken += 1;
        else if (!long.ok) refused += 1;
        expect(checkWithFallback(bytes, session, 'state', now)).toEqual(long);
      }),
      runs(1_200),
    );
    expectReached(() => {
      expect(taken).toBeGreaterThan(50);
      expect(refused).toBeGreaterThan(200);
    });
  });
});
