/** An id is shortened to no less, so that its beginning is still of use. */
const MIN_ID_COLUMNS = 9;
const MIN_COLUMNS = 6;
const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/**
 * Widths of columns that take at most `available` together: the widest ones are shortened first. Ids that differ keep the
 * beginning that distinguishes them while there is space elsewhere.
 */
export function fitWidths(
  columns: readonly (readonly string[])[],
  widths: readonly number[],
  available: number,
): number[] {
  const shown = [...widths];
  const total = () => shown.reduce((sum, width) => sum + width, 0);
  for (const floors of [columns.map(distinctColumns), columns.map(() => MIN_COLUMNS), columns.map(() => 1)]) {
    while (total() > available) {
      const shrinkable = shown.map((width, n) => (width > (floors[n] ?? 1) ? width : 0));
      const widest = Math.max(...shrinkable);
      if (widest === 0) break;
      const column = shrinkable.indexOf(widest);
      shown[column] = widest - 1;
    }
  }
  return shown;
}

/** The width at which a column of ids still distinguishes them, with the ellipsis. */
function distinctColumns(column: readonly string[]): number {
  const ids = [...new Set(column.slice(1).filter((text) => text !== '-'))];
  if (ids.length === 0 || !ids.every((id) => UUID.test(id))) return MIN_COLUMNS;
  const ordered = ids.toSorted();
  const shared = ordered.slice(1).map((id, n) => commonLength(id, ordered[n] ?? ''));
  return Math.max(MIN_ID_COLUMNS, ...shared.map((length) => length + 2));
}

function commonLength(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}
