import { describe, expect, it } from 'vitest';
import type { Bucket } from '../../../src/domain/history/bucket.ts';
import { aggregateOf, aggregates, rowFormats } from '../../../src/domain/history/export-rows.ts';
import type { SampleValue } from '../../../src/domain/history/sample.ts';

const START = Date.UTC(2026, 2, 1);
const sampleOf = (value: SampleValue) => ({ time: START, at: START + 1_500, sequence: 7, value });

const ofNumbers: Bucket = {
  ...{ start: START, count: 3, last: 4, head: 0, states: [] },
  numbers: { count: 3, min: 1, max: 4, sum: 7.5 },
};
const ofStates: Bucket = {
  ...{ start: START, count: 2, numbers: null, last: true, head: 0 },
  states: [
    ['say "on"', 40_000],
    [null, 20_000],
  ],
};

describe('CSV', () => {
  const { samplesHeader, pointsHeader, samples, points } = rowFormats.csv();

  it('has a header of samples, and one of the aggregates that are shown, in their order', () => {
    expect(samplesHeader()).toBe('"at","property","value","received_at","sequence_number"\r\n');
    expect(pointsHeader(new Set(['states', 'min'] as const))).toBe('"at","property","min","states"\r\n');
  });

  it.each<[SampleValue, string]>([
    [21.5, '21.5'],
    [false, '"false"'],
    ['=1+1', `"'=1+1"`],
  ])('has a record for the sample %j', (value, field) => {
    expect(samples('=t')(sampleOf(value))).toBe(
      `"2026-03-01T00:00:00.000Z","'=t",${field},"2026-03-01T00:00:01.500Z",7\r\n`,
    );
  });

  it('has a record for an interval, with states as JSON and empty fields for what numbers alone have', () => {
    const all = new Set(aggregates);
    expect(points('t', all)(ofNumbers)).toBe('"2026-03-01T00:00:00.000Z","t",1,4,2.5,4,3,"[]"\r\n');
    expect(points('on', all)(ofStates)).toBe(
      `"2026-03-01T00:00:00.000Z","on",,,,"true",2,"[{""state"":""say \\""on\\"""",""ms"":40000},{""state"":null,""ms"":20000}]"\r\n`,
    );
  });
});

describe('NDJSON', () => {
  const { samplesHeader, pointsHeader, samples, points } = rowFormats.ndjson();

  it('has no headers', () => {
    expect([samplesHeader(), pointsHeader(new Set(aggregates))]).toEqual(['', '']);
  });

  it('has a line for a sample', () => {
    const line = samples('a "b"')(sampleOf('x"y'));
    expect(line.endsWith('\n')).toBe(true);
    expect(JSON.parse(line)).toEqual({
      ...{ at: '2026-03-01T00:00:00.000Z', property: 'a "b"', value: 'x"y' },
      ...{ received_at: '2026-03-01T00:00:01.500Z', sequence_number: 7 },
    });
  });

  it('has a line for an interval with the aggregates that are shown', () => {
    const line = points('t', new Set(['mean', 'last', 'count'] as const))(ofNumbers);
    expect(JSON.parse(line)).toEqual({ at: '2026-03-01T00:00:00.000Z', property: 't', mean: 2.5, last: 4, count: 3 });
  });
});

it('an interval without numbers has no minimum, maximum and mean', () => {
  expect(aggregates.map((name) => aggregateOf(ofStates, name))).toEqual([
    ...[null, null, null, true, 2],
    [
      { state: 'say "on"', ms: 40_000 },
      { state: null, ms: 20_000 },
    ],
  ]);
});
