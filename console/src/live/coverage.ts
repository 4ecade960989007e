// The updates that a connection to `/ws/state` receives.

/** Kinds of updates, of some devices or of all of them. */
export interface Coverage {
  /** In alphabetical order, as are the ids. */
  kinds: readonly string[];
  /** Null for all devices of the tenant, and for updates without a device. */
  deviceIds: readonly string[] | null;
}

/** With more ids a URL exceeds what proxies accept: 8 KiB of header for nginx by default. */
const MAX_FILTERED = 150;

const sorted = (values: Iterable<string>): string[] => [...new Set(values)].sort();

/** The smallest coverage that has all of these; more devices than a URL can name are all devices. */
export function union(parts: readonly Coverage[]): Coverage {
  const ids = parts.some(({ deviceIds }) => deviceIds === null)
    ? null
    : sorted(parts.flatMap(({ deviceIds }) => deviceIds ?? []));
  return {
    kinds: sorted(parts.flatMap(({ kinds }) => kinds)),
    deviceIds: ids !== null && ids.length > MAX_FILTERED ? null : ids,
  };
}

export const covers = (whole: Coverage, part: Coverage): boolean =>
  part.kinds.every((kind) => whole.kinds.includes(kind)) &&
  (whole.deviceIds === null || (part.deviceIds?.every((id) => whole.deviceIds?.includes(id)) ?? false));

export const coversSame = (one: Coverage, other: Coverage): boolean => covers(one, other) && covers(other, one);

/** Whether an update belongs to the coverage; its type is its kind with `_update`. */
export function includes({ kinds, deviceIds }: Coverage, message: unknown): boolean {
  const { type, device_id: id } = message as { type?: unknown; device_id?: unknown };
  if (typeof type !== 'string' || !kinds.includes(type.replace(/_update$/, ''))) return false;
  return deviceIds === null || (typeof id === 'string' && deviceIds.includes(id));
}

/** Which scopes the kinds need: `read:devices`, `read:commands` and `read:plans`. */
export const scopeFamilies = (kinds: readonly string[]): string[] =>
  sorted(
    kinds.map((kind) =>
      kind === 'plan' ? 'plans' : ['command', 'confirmation'].includes(kind) ? 'commands' : 'devices',
    ),
  );
