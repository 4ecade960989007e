/** The kinds of quotas, and how a refusal names what they limit. `home_rooms` holds for each home, `group_devices` for each group. */
export const quotaKinds = {
  devices: 'devices',
  homes: 'homes',
  home_rooms: 'rooms in one home',
  groups: 'groups',
  group_devices: 'devices in one group',
  dashboards: 'dashboards',
  cas: 'CAs of devices',
  firmware_releases: 'firmware releases, with drafts and withdrawn ones',
  artifact_mib: 'MiB of firmware artifacts',
} as const;
export type QuotaKind = keyof typeof quotaKinds;

export interface Quotas {
  /** Of a tier with factor 1; 0 is unlimited. */
  base: Readonly<Record<QuotaKind, number>>;
  /** By tier: what `base` is multiplied by, 1 for a tier without one; 0 is unlimited. */
  factors: Readonly<Record<string, number>>;
}

export const defaultQuotas: Quotas = {
  base: {
    devices: 10_000,
    homes: 1_000,
    home_rooms: 100,
    groups: 1_000,
    group_devices: 1_000,
    dashboards: 100,
    cas: 10,
    firmware_releases: 1_000,
    artifact_mib: 1_024,
  },
  factors: { pro: 10 },
};

/** 0 is unlimited. */
export const quotaOf = ({ base, factors }: Quotas, kind: QuotaKind, tier: string): number =>
  base[kind] * ((Object.hasOwn(factors, tier) ? factors[tier] : null) ?? 1);
