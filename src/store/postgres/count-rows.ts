import type { Uuid } from '../../domain/values.ts';
import type { Database, SqlValue } from './database.ts';

/** Number of rows. `source`: table and condition. `name`: of the prepared statement. `tenantId`: all are rows of this tenant. */
export async function countRows(
  database: Database,
  name: string,
  source: string,
  values: readonly SqlValue[],
  tenantId: Uuid | null = null,
): Promise<number> {
  const [row] = await database.read<{ n: number }>({
    ...{ name, text: `select count(*) as n from ${source}`, values },
    ...(tenantId !== null && { scope: { tenantId } }),
  });
  return row?.n ?? 0;
}
