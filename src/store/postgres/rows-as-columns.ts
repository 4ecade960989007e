/** The columns of a result, by name; null if it has no row. */
export type RowColumns<Row> = { readonly [Name in keyof Row]: readonly Row[Name][] | null };

/**
 * A query that returns the rows of another one as one JSON value `columns`, in their order (see `rowsOfColumns`). One value
 * takes half the time to read that 600 do, and PostgreSQL makes arrays of columns in three quarters of the time of an
 * array of objects, for which it looks up the type of each member of each row.
 */
export const selectColumns = (names: readonly string[], query: string): string =>
  `select json_build_object(${names.map((name) => `'${name}', array_agg(r."${name}")`).join(', ')}) as columns
   from (${query}) r`;

/** The rows of `selectColumns`. */
export function rowsOfColumns<Row extends object>(columns: RowColumns<Row>): Row[] {
  const names = Object.keys(columns) as (keyof Row)[];
  const count = names.length === 0 ? 0 : (columns[names[0] as keyof Row]?.length ?? 0);
  return Array.from({ length: count }, (_, index) => {
    const row: Partial<Row> = {};
    for (const name of names) row[name] = (columns[name] as readonly Row[keyof Row][])[index] as Row[keyof Row];
    return row as Row;
  });
}
