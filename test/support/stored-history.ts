import type { Sample, SampleValue } from '../../src/domain/history/sample.ts';
import { encodeSegment } from '../../src/domain/history/segment.ts';
import type { Store } from '../../src/store/contract.ts';
import { DAY } from './history-model.ts';

/** Samples of one property at regular times within a day, the n-th with the n-th value in turn. */
export const samplesOfDay = (day: number, count: number, values: readonly SampleValue[]): Sample[] =>
  Array.from({ length: count }, (_, n) => {
    const time = day * DAY + Math.floor((n * DAY) / count);
    return { time, at: time + 20, sequence: n + 1, value: values[n % values.length] as SampleValue };
  });

/** Stores samples as the compaction of reports does, for a device that has reported nothing. */
export async function storeHistory(
  { history }: Pick<Store, 'history'>,
  device: { deviceId: string; tenantId: string },
  series: Readonly<Record<string, ReadonlyMap<number, Sample[]>>>,
): Promise<void> {
  const segments = await Promise.all(
    Object.entries(series).flatMap(([property, days]) =>
      [...days].map(async ([day, samples]) => ({
        ...{ property, day, samples: samples.length },
        body: await encodeSegment([...samples]),
      })),
    ),
  );
  const stored = await history.compact({ ...device, from: 0, to: 1, segments });
  if (!stored) throw new Error('the device has reported something');
}
