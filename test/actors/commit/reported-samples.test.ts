import { expect, it } from 'vitest';
import { reportedSamples } from '../../../src/actors/commit/reported-samples.ts';
import { IMPORTED_SEQUENCE } from '../../../src/domain/history/sample.ts';
import type { SamplesOutput } from '../../../src/machines/outputs.ts';

const output = (at: number, deviceAt: number, sequence: number, isTelemetry = false): SamplesOutput => ({
  ...{ type: 'samples.put', at, deviceAt, sequence, isTelemetry },
  text: '{"level":1}',
});

it('the reports of a commit are those of its outputs in their order, and have the earliest time of receipt', () => {
  const { at, text } = reportedSamples([output(50, 49, 8), output(40, 3, IMPORTED_SEQUENCE), output(60, 59, 9, true)]);
  // Imported reports are read up to the time of the import, and their row must not be later.
  expect(at).toBe(40);
  expect(JSON.parse(text)).toEqual([
    [50, 49, 8, { level: 1 }],
    [40, 3, IMPORTED_SEQUENCE, { level: 1 }],
    [60, 59, 9, {}, { level: 1 }],
  ]);
});
