import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import { kinds } from '../../../src/edges/shared/live/kinds.ts';
import type { Update } from '../../../src/edges/shared/live/update.ts';
import { textFrame } from '../../../src/edges/websocket/frames.ts';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';

/** As RFC 6455 §5.2 has it, built in the plainest way. */
function plainFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  const { length } = payload;
  if (length < 126) return Buffer.concat([Buffer.of(0x81, length), payload]);
  const size = Buffer.alloc(length < 65_536 ? 2 : 8);
  if (length < 65_536) size.writeUInt16BE(length);
  else size.writeBigUInt64BE(BigInt(length));
  return Buffer.concat([Buffer.of(0x81, length < 65_536 ? 126 : 127), size, payload]);
}

describe('a text frame', () => {
  const lengths = [0, 1, 41, 42, 125, 126, 127, 255, 256, 681, 682, 683, 2_730, 21_845, 65_535, 65_536, 70_000];
  const letters = { ascii: 'x', 'of two bytes': 'é', 'of three bytes': '電', 'of four bytes': '🔌' };

  it.each(Object.entries(letters))('has the header of its bytes, whatever its length, letters %s', (_, letter) => {
    for (const length of lengths) {
      for (const text of [letter.repeat(length), `${'x'.repeat(length)}${letter}`]) {
        expect(textFrame(text).equals(plainFrame(text)), `${length}`).toBe(true);
      }
    }
  });

  it('stays what it is while others are made', () => {
    const texts = Array.from({ length: 2_000 }, (_, n) => `${n} `.repeat(1 + ((n * 7) % 160)) + 'é'.repeat(n % 130));
    const frames = texts.map(textFrame);
    expect(frames.every((frame, n) => frame.equals(plainFrame(texts[n] as string)))).toBe(true);
  });
});

describe('the text of an update', () => {
  const heard = (output: VolatileOutput & { type: 'device.state' }): Update => {
    let heard: Update | undefined;
    kinds.state.listen(
      {
        on: (_, sink) => {
          sink(output as never);
          return () => {};
        },
      },
      (update) => {
        heard = update;
      },
    );
    return heard as Update;
  };

  const device = {
    type: 'device.state',
    tenantId: '00000000-0000-7000-8000-000000000001',
    deviceId: '00000000-0000-7000-8000-000000000002',
    stateVersion: 7,
    at: 1_700_000_000_000,
  } as const;

  it.each<JsonObject>([
    {},
    { on: true, level: 40, name: 'Küche "\\ \u2028 </script>', deep: { list: [1, null, '電'] } },
    JSON.parse('{"__proto__":{"a":1},"toJSON":1,"-0":-0}') as JsonObject,
  ])('is the JSON of its message: %j', (state) => {
    const update = heard({ ...device, state });
    expect(update.text?.()).toBe(JSON.stringify(update.message()));
    expect(update).toMatchObject({ kind: 'state', subject: `state ${update.deviceId}`, version: 7 });
  });

  it('has the state in the words of the device, where they are known', () => {
    const words = '{"10":1,"9":"Küche"}';
    const bytes = Buffer.from(`before${words}behind`);
    const state = JSON.parse(words) as JsonObject;
    const update = heard({ ...device, state, written: { bytes, from: 6, to: bytes.length - 6 } });
    expect(update.text?.()).toContain(`"state":${words},"timestamp"`);
    expect(JSON.parse(update.text?.() as string)).toEqual(update.message());
  });
});
