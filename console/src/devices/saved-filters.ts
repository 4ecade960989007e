/** A filter of the list of devices with a name; `query` is the query of the list's address. */
export interface SavedFilter {
  name: string;
  query: string;
}

/** The most filters that a browser stores for a user. */
export const MAX_FILTERS = 20;
export const MAX_FILTER_NAME = 40;

const isFilter = (value: unknown): value is SavedFilter =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as SavedFilter).name === 'string' &&
  typeof (value as SavedFilter).query === 'string';

/** The filters in a stored text, without what another program may have written there. */
export function parseFilters(stored: string | null): SavedFilter[] {
  try {
    const values: unknown = JSON.parse(stored ?? '[]');
    return Array.isArray(values) ? values.filter(isFilter).slice(0, MAX_FILTERS) : [];
  } catch {
    return [];
  }
}

/** With one more filter, in the order of the names; one with the same name is replaced. Null if there are too many. */
export function withFilter(filters: readonly SavedFilter[], added: SavedFilter): SavedFilter[] | null {
  const others = filters.filter(({ name }) => name !== added.name);
  if (others.length >= MAX_FILTERS) return null;
  return [...others, added].sort((one, other) => one.name.localeCompare(other.name));
}

export const withoutFilter = (filters: readonly SavedFilter[], name: string): SavedFilter[] =>
  filters.filter((filter) => filter.name !== name);
