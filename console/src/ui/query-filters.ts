// Filters in the address, so that they can be bookmarked and shared.

/** The setter of the address's parameters. */
export type ChangeQuery = (
  change: (before: URLSearchParams) => URLSearchParams,
  options?: { replace?: boolean },
) => void;

/** Sets filters, or removes those that are empty or null, without another entry in the browser's history. */
export function setFilters(change: ChangeQuery, values: Readonly<Record<string, string | null>>): void {
  change(
    (before) => {
      const after = new URLSearchParams(before);
      for (const [name, value] of Object.entries(values)) {
        if (value === null || value === '') after.delete(name);
        else after.set(name, value);
      }
      return after;
    },
    { replace: true },
  );
}
