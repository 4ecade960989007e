import { describe, expect, it } from 'vitest';
import {
  type HistoryRule,
  historyRulesOf,
  type KeptValues,
  keptPart,
  keptUnder,
  NOTHING_KEPT,
} from '../../../src/domain/history/rules.ts';
import {
  forEachLeaf,
  type SampleValue,
  type StoredReport,
  sampleValueAt,
  seriesPathOf,
} from '../../../src/domain/history/sample.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { fc, runs } from '../../support/properties.ts';

const rule = (property: string, more: Partial<HistoryRule> = {}): HistoryRule => ({
  property,
  mode: 'change',
  ...more,
});

/** The parts of reports in order, one after another. */
function partsOf(rules: readonly HistoryRule[], reports: readonly JsonObject[], kept: KeptValues = NOTHING_KEPT) {
  return reports.map((report) => {
    const result = keptPart(report, rules, kept, 'order');
    kept = result.kept;
    return result.part;
  });
}

describe('the kept part of a report', () => {
  it('is the report itself if no rule drops anything', () => {
    const report = { level: 1, climate: { temperature: 20 } };
    expect(keptPart(report, [rule('door', { mode: 'off' }), rule('level')], NOTHING_KEPT, 'order').part).toBe(report);
  });

  it('has nothing of a property that is off, nor of what is below it', () => {
    const rules = [
      rule('climate', { mode: 'off' }),
      rule('a\\.b', { mode: 'off' }),
      rule('deep.down', { mode: 'off' }),
    ];
    const [part] = partsOf(rules, [
      { climate: { temperature: 20, list: [1] }, 'a.b': 1, a: { b: 2 }, deep: { down: 'x' }, on: true },
    ]);
    expect(part).toEqual({ a: { b: 2 }, on: true });
    expect(partsOf(rules, [{ climate: [1, 2] }, { climate: null, deep: { down: 1 } }])).toEqual([{}, {}]);
  });

  it('has values that differ from the last one kept, and numbers by more than the deadband', () => {
    const rules = [rule('mode'), rule('level', { deadband: 0.5 })];
    const levels: Json[] = [20, 20.5, 20.6, 20.1, 20, 'none', 20.1, -1e308, 1e308];
    expect(
      partsOf(
        rules,
        levels.map((level) => ({ level })),
      ),
    ).toEqual([
      ...[{ level: 20 }, {}, { level: 20.6 }, {}, { level: 20 }, { level: 'none' }, { level: 20.1 }],
      ...[{ level: -1e308 }, { level: 1e308 }],
    ]);
    const modes: Json[] = ['eco', 'eco', 'heat', null, 'heat', 1, '1'];
    expect(
      partsOf(
        rules,
        modes.map((mode) => ({ mode })),
      ),
    ).toEqual([...[{ mode: 'eco' }, {}, { mode: 'heat' }, { mode: null }, {}, { mode: 1 }, { mode: '1' }]]);
  });

  it('has all values while earlier reports may arrive, and late ones do not count as the last one kept', () => {
    const rules = [rule('level', { deadband: 5 })];
    const first = keptPart({ level: 20 }, rules, NOTHING_KEPT, 'order');
    const ahead = keptPart({ level: 21 }, rules, first.kept, 'gap');
    const late = keptPart({ level: 90 }, rules, ahead.kept, 'late');
    expect([ahead.part, late.part]).toEqual([{ level: 21 }, { level: 90 }]);
    expect(late.kept).toBe(ahead.kept);
    expect(keptPart({ level: 26 }, rules, late.kept, 'order').part).toEqual({});
    expect(keptPart({ level: 27 }, rules, late.kept, 'order').part).toEqual({ level: 27 });
  });

  it('of telemetry follows its own rules', () => {
    const rules = [rule('$telemetry.rssi', { mode: 'off' }), rule('\\$telemetry', { mode: 'off' })];
    const of = (from: 'state' | 'telemetry', report: JsonObject) =>
      keptPart(report, rules, NOTHING_KEPT, 'order', from).part;
    expect(of('telemetry', { rssi: -60, battery: 80 })).toEqual({ battery: 80 });
    expect(of('state', { rssi: -60, $telemetry: { battery: 80 } })).toEqual({ rssi: -60 });
    expect(
      keptPart({ rssi: 1 }, [rule('$telemetry', { mode: 'off' })], NOTHING_KEPT, 'order', 'telemetry').part,
    ).toEqual({});
  });

  it('does not depend on how reports are divided into commits and restarts', () => {
    const values = fc.oneof(
      fc.integer({ min: 0, max: 12 }).map((n) => n / 4),
      fc.constantFrom<Json>('a', 'b', true, null),
    );
    const reports = fc.array(fc.dictionary(fc.constantFrom('level', 'mode', 'free'), values as fc.Arbitrary<Json>), {
      maxLength: 30,
    });
    const rules = [rule('level', { deadband: 0.5 }), rule('mode')];
    fc.assert(
      fc.property(reports, fc.integer({ min: 0, max: 30 }), (all, cut) => {
        const whole = partsOf(rules, all);
        let kept: KeptValues = NOTHING_KEPT;
        const divided = all.map((report, n) => {
          // As it is stored and read again, also with the rules.
          if (n === cut) kept = new Map(JSON.parse(JSON.stringify([...kept])));
          const result = keptPart(report, n < cut ? rules : structuredClone(rules), kept, 'order');
          kept = result.kept;
          return result.part;
        });
        expect(divided).toEqual(whole);
        let last: SampleValue | null = null;
        for (const [n, { level }] of all.entries()) {
          if (level === undefined || level === null) continue;
          const near = typeof level === 'number' && typeof last === 'number' && Math.abs(level - last) <= 0.5;
          expect(whole[n]?.level).toEqual(near || level === last ? undefined : level);
          if (!near) last = level as SampleValue;
        }
      }),
      runs(200),
    );
  });
});

describe('rules', () => {
  it('are those of properties whose samples are not all kept', () => {
    expect(historyRulesOf({ a: { history: 'every' }, b: {} })).toBeUndefined();
    expect(historyRulesOf({ a: { history: 'change', deadband: 2 }, b: { history: 'off' } })).toEqual([
      { property: 'a', mode: 'change', deadband: 2 },
      { property: 'b', mode: 'off' },
    ]);
  });

  it('forget the values of properties that are not compared any longer', () => {
    const kept = new Map([
      ['a', 1],
      ['b', 2],
    ]);
    expect([...keptUnder(kept, [rule('a'), rule('b', { mode: 'off' })])]).toEqual([['a', 1]]);
    expect(keptUnder(kept, [rule('a'), rule('b')])).toBe(kept);
    expect(keptUnder(kept)).toBe(NOTHING_KEPT);
  });
});

describe('the path of a series', () => {
  it('distinguishes telemetry from properties of the state with any name', () => {
    const report: StoredReport = [
      0,
      0,
      0,
      { $telemetry: { rssi: 1 }, $x: 2, 'a.b': { 'c\\': 3 }, a: { $y: 4 } },
      { rssi: 5 },
    ];
    const leaves = new Map<string, SampleValue>();
    forEachLeaf(report, (property, value) => leaves.set(property, value));
    expect([...leaves]).toEqual([
      ...[
        ['\\$telemetry.rssi', 1],
        ['\\$x', 2],
        ['a\\.b.c\\\\', 3],
        ['a.$y', 4],
        ['$telemetry.rssi', 5],
      ],
    ]);
    for (const [property, value] of leaves) {
      const path = seriesPathOf(property);
      expect(path && sampleValueAt(report, path), property).toBe(value);
    }
  });

  it.each(['$x', '$telemetryx', '$', 'a\\b', '\\a', 'a.\\$b'])('%s is none', (property) => {
    expect(seriesPathOf(property)).toBeNull();
  });
});
