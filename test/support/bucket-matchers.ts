import { expect } from 'vitest';
import type { BucketSummary } from './history-model.ts';

/** Sums of roll-ups are added in another order than those of samples. */
export const withCloseSum = (bucket: BucketSummary) =>
  bucket.numbers === null
    ? bucket
    : { ...bucket, numbers: { ...bucket.numbers, sum: expect.closeTo(bucket.numbers.sum, 4) } };
