import type { Database, SqlValue } from './database.ts';

/** Number of rows. `source`: table and condition. `name`: of the prepared statement. */
export async function countRows(
  database: Database,
  name: string,
  source: string,
  values: readonly SqlValue[],
): Promise<number> {
  const [row] = await database.read<{ n: number }>({ name, text: `select count(*) as n from ${source}`, values });
  return row?.n ?? 0;
}
