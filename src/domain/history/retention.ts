/** The kinds of rows of the history that have a retention. */
export const historyKinds = ['samples', 'rollups'] as const;
type HistoryKind = (typeof historyKinds)[number];

/** Days for which the history of devices is retained. */
export interface HistoryRetention {
  base: Readonly<Record<HistoryKind, number>>;
  /** Of a tier, where they are not those of `base`. */
  byTier: Readonly<Record<string, Partial<Readonly<Record<HistoryKind, number>>>>>;
}

export const defaultHistoryRetention: HistoryRetention = { base: { samples: 7, rollups: 730 }, byTier: {} };

/** How long a tenant of the tier can read its history. */
export const retentionOf = ({ base, byTier }: HistoryRetention, tier: string): Record<HistoryKind, number> => ({
  ...base,
  ...(Object.hasOwn(byTier, tier) && byTier[tier]),
});

/** How long the rows are stored: they are deleted by days, for all tenants at once. */
export const longestRetention = ({ base, byTier }: HistoryRetention): Record<HistoryKind, number> => ({
  samples: Math.max(base.samples, ...Object.values(byTier).map(({ samples = 0 }) => samples)),
  rollups: Math.max(base.rollups, ...Object.values(byTier).map(({ rollups = 0 }) => rollups)),
});
