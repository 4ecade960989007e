import { describe, expect, it } from 'vitest';
import { PropertyTimes, type StateReport } from '../../src/services/property-times.ts';
import { fc } from '../support/properties.ts';

/** Reference implementation: one time per property. */
function note(times: Map<string, number>, { state, full }: StateReport, at: number): void {
  if (full) times.clear();
  for (const name of Object.keys(state)) {
    if (state[name] === null && !full) times.delete(name);
    else if (times.size < 200 || times.has(name)) times.set(name, at);
  }
}

const few: fc.Arbitrary<readonly string[]> = fc.subarray(['on', 'level', 'mode', '__proto__', 'toString']);
const many: fc.Arbitrary<readonly string[]> = fc
  .integer({ min: 0, max: 300 })
  .chain((from) =>
    fc.integer({ min: 0, max: 250 }).map((count) => Array.from({ length: count }, (_, n) => `p${from + n}`)),
  );
const report = fc.record({
  names: fc.oneof({ weight: 4, arbitrary: few }, { weight: 1, arbitrary: many }),
  gone: fc.oneof({ weight: 3, arbitrary: fc.constant<readonly string[]>([]) }, { weight: 1, arbitrary: few }),
  full: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
  times: fc.integer({ min: 1, max: 3 }),
  lookedAt: fc.boolean(),
});

describe('the report times of properties', () => {
  it('are reported as if stored for each property', () => {
    fc.assert(
      fc.property(fc.array(report, { maxLength: 12 }), (reports) => {
        const quick = new PropertyTimes();
        const plain = new Map<string, number>();
        let at = 0;
        for (const { names, gone, full, times, lookedAt } of reports) {
          const values = names.map((name) => [name, gone.some((one) => one === name) ? null : 1] as const);
          for (let n = 0; n < times; n++) {
            at += 1;
            const sent = { state: Object.fromEntries(values), full };
            quick.record(sent, at);
            note(plain, sent, at);
          }
          if (lookedAt) expect(new Map(quick.all())).toEqual(plain);
        }
        expect(new Map(quick.all())).toEqual(plain);
      }),
      { numRuns: 500 },
    );
  });

  it('are unchanged by repeated reads', () => {
    const times = new PropertyTimes();
    times.record({ state: { a: 1, b: 2 }, full: false }, 1);
    times.record({ state: { a: 1 }, full: false }, 2);
    const seen = [new Map(times.all()), new Map(times.all())];
    expect(seen[0]).toEqual(
      new Map([
        ['a', 2],
        ['b', 1],
      ]),
    );
    expect(seen[1]).toEqual(seen[0]);
  });
});
