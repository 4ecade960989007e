/**
 * Deletes the rows `o` of `table` that `source` identifies by key, with one index lookup each. Tables that fill and
 * empty continuously have no reliable statistics: the planner would scan such a table once for each row of `source`.
 * "offset 0" prevents that plan.
 */
export const deleteByKey = (table: string, source: string, key: string): string =>
  `delete from ${table} where ctid = any(array(
    select place from ${source} cross join lateral (select o.ctid as place from ${table} o where ${key} offset 0) found))`;
