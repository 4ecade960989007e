import { describe, expect, it } from 'vitest';
import type { JsonSpan } from '../../../src/domain/json/span.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { JsonFragments, Update } from '../../../src/edges/shared/live/update.ts';
import { updateKinds } from '../../../src/edges/shared/live/update-kinds.ts';
import {
  chunksOf,
  encodeTextFrame,
  encodeUpdateFrame,
  frameBytes,
  type UpdateFrame,
} from '../../../src/edges/websocket/frames.ts';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';
import { spanText } from '../../support/json-span.ts';
import { fc } from '../../support/properties.ts';

/** A frame according to RFC 6455 §5.2, built in the simplest way. */
function plainFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const { length } = payload;
  if (length < 126) return Buffer.concat([Buffer.of(0x81, length), payload]);
  const size = Buffer.alloc(length < 65_536 ? 2 : 8);
  if (length < 65_536) size.writeUInt16BE(length);
  else size.writeBigUInt64BE(BigInt(length));
  return Buffer.concat([Buffer.of(0x81, length < 65_536 ? 126 : 127), size, payload]);
}

const frameOf = (...pieces: JsonFragments): Buffer => frameBytes(encodeTextFrame(pieces));
/** The same text as part of a larger buffer. */
const spanOf = (text: string): JsonSpan => {
  const bytes = Buffer.from(`before${text}é`);
  return { bytes, from: 6, to: bytes.length - 2 };
};
const textOf = (pieces: JsonFragments): string =>
  pieces.map((piece) => (typeof piece === 'string' ? piece : spanText(piece))).join('');

describe('a text frame', () => {
  const lengths = [
    0, 1, 41, 42, 125, 126, 127, 255, 256, 681, 682, 683, 2_047, 2_048, 2_730, 21_845, 65_535, 65_536, 70_000,
  ];
  const letters = { ascii: 'x', 'of two bytes': 'é', 'of three bytes': '電', 'of four bytes': '🔌' };

  it.each(Object.entries(letters))('has the header for its bytes, for any length, letters %s', (_, letter) => {
    for (const length of lengths) {
      for (const text of [letter.repeat(length), `${'x'.repeat(length)}${letter}`]) {
        expect(frameOf(text).equals(plainFrame(text)), `${length}`).toBe(true);
        expect(frameOf(spanOf(text)).equals(plainFrame(text)), `${length}`).toBe(true);
        expect(frameOf('{', text, '', spanOf(text), '}').equals(plainFrame(`{${text}${text}}`)), `${length}`).toBe(
          true,
        );
      }
    }
  });

  it('is not changed while others are created', () => {
    const texts = Array.from({ length: 2_000 }, (_, n) => `${n} `.repeat(1 + ((n * 7) % 160)) + 'é'.repeat(n % 130));
    const frames = texts.map((text, n) => encodeTextFrame([n % 2 === 0 ? text : spanOf(text)]));
    expect(frames.every((frame, n) => frameBytes(frame).equals(plainFrame(texts[n] as string)))).toBe(true);
  });
});

describe('frames in one write', () => {
  it('are the same frames in the same order, for any way of creation', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 400 }),
      fc.string({ unit: 'grapheme', maxLength: 400 }).map(spanOf),
      fc.integer({ min: 1_000, max: 90_000 }).map((length) => 'x'.repeat(length)),
    );
    // Frames of other groups are created in between.
    const made = fc.array(
      fc.record({ pieces: fc.array(piece, { maxLength: 4 }), ours: fc.integer({ min: 0, max: 4 }) }),
      {
        maxLength: 60,
      },
    );
    fc.assert(
      fc.property(made, (made) => {
        const ours: UpdateFrame[] = [];
        for (const [n, { pieces, ours: isOurs }] of made.entries()) {
          const notified = encodeUpdateFrame(`${n}`, n, pieces);
          if (isOurs > 0) ours.push(notified);
        }
        const chunks = [...chunksOf(ours)].map(({ bytes, items }) => ({ bytes: Buffer.from(bytes), items }));
        expect(chunks.flatMap(({ items }) => items)).toEqual(ours);
        const plain = ours.map(({ version }) => plainFrame(textOf(made[version as number]?.pieces ?? [])));
        expect(Buffer.concat(chunks.map(({ bytes }) => bytes)).equals(Buffer.concat(plain))).toBe(true);
        for (const { bytes, items } of chunks)
          if (items.length > 1) expect(bytes.length).toBeLessThanOrEqual(64 * 1024);
      }),
      { numRuns: 200 },
    );
  });

  it('are not copied if they were created in sequence', () => {
    const three = ['x', 'y', 'z'].map((letter) => encodeUpdateFrame(letter, 1, [letter.repeat(200)])) as [
      UpdateFrame,
      UpdateFrame,
      UpdateFrame,
    ];
    // One of them may have been the first in a block.
    const [one, other] = three[0].block === three[1].block ? three : [three[1], three[2]];
    const [both] = chunksOf([one, other]);
    expect(both?.bytes.buffer).toBe(one.block.buffer);
    expect(both?.bytes.equals(Buffer.concat([frameBytes(one), frameBytes(other)]))).toBe(true);
    const [chunk] = chunksOf([other, one]);
    expect(chunk?.bytes.buffer).not.toBe(one.block.buffer);
    expect(chunk?.bytes.equals(Buffer.concat([frameBytes(other), frameBytes(one)]))).toBe(true);
  });
});

describe('the text of an update', () => {
  const received = (output: VolatileOutput & { type: 'device.state' }): Update => {
    let received: Update | undefined;
    updateKinds.state.subscribe(
      {
        subscribe: (_, sink) => {
          sink(output as never);
          return () => {};
        },
      },
      (update) => {
        received = update;
      },
    );
    return received as Update;
  };

  const device = {
    type: 'device.state',
    tenantId: '00000000-0000-7000-8000-000000000001',
    deviceId: '00000000-0000-7000-8000-000000000002',
    stateVersion: 7,
    ...{ report: {}, deviceAt: 1_700_000_000_000, sequence: 3 },
    at: 1_700_000_000_000,
  } as const;

  it.each<JsonObject>([
    {},
    { on: true, level: 40, name: 'Küche "\\ \u2028 </script>', deep: { list: [1, null, '電'] } },
    JSON.parse('{"__proto__":{"a":1},"toJSON":1,"-0":-0}') as JsonObject,
  ])('is the JSON of its message: %j', (state) => {
    const update = received({ ...device, state });
    expect(textOf(update.fragments())).toBe(JSON.stringify(update.message()));
    expect(update).toMatchObject({ kind: 'state', subject: `state ${update.deviceId}`, version: 7 });
  });

  it('has the state in the text of the device, if it is known', () => {
    const words = '{"10":1,"9":"Küche"}';
    const bytes = Buffer.from(`before${words}behind`);
    const state = JSON.parse(words) as JsonObject;
    const update = received({ ...device, state, written: { bytes, from: 6, to: bytes.length - 6 } });
    expect(textOf(update.fragments())).toContain(`"state":${words},"timestamp"`);
    expect(JSON.parse(textOf(update.fragments()))).toEqual(update.message());
  });
});
