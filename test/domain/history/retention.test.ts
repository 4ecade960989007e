import { expect, it } from 'vitest';
import { defaultHistoryRetention, longestRetention, retentionOf } from '../../../src/domain/history/retention.ts';

const retention = {
  base: { samples: 7, rollups: 730 },
  byTier: { pro: { samples: 30 }, free: { rollups: 90 } },
};

it.each([
  ['pro', { samples: 30, rollups: 730 }],
  ['free', { samples: 7, rollups: 90 }],
  ['another', { samples: 7, rollups: 730 }],
  ['constructor', { samples: 7, rollups: 730 }],
])('a tenant of the tier %s can read its history for the days of the tier, otherwise of all', (tier, days) => {
  expect(retentionOf(retention, tier)).toEqual(days);
});

it('rows are stored for the longest retention of all tiers', () => {
  expect(longestRetention(retention)).toEqual({ samples: 30, rollups: 730 });
  expect(longestRetention(defaultHistoryRetention)).toEqual(defaultHistoryRetention.base);
});
