import { expect, it } from 'vitest';
import { iso } from '../../src/domain/iso-time.ts';
import { IsoTimes } from '../../src/domain/iso-times.ts';
import { fc } from '../support/properties.ts';

const DAY = 86_400_000;

it('writes times as ISO 8601 does, whatever the order of days', () => {
  const times = new IsoTimes();
  for (const at of [
    0,
    DAY - 1,
    DAY,
    1,
    -1,
    -DAY,
    Date.UTC(2026, 1, 28, 23, 59, 59, 999),
    Date.UTC(9999, 11, 31),
    8.64e15,
  ])
    expect(times.text(at)).toBe(iso(at));
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -8.64e15, max: 8.64e15 })), (all) => {
      for (const at of all) expect(times.text(at)).toBe(iso(at));
    }),
  );
});
