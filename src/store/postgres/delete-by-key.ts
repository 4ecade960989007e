/**
 * Deletes the rows `o` of `table` that `source` names by their key, one index look-up each. Tables that fill and empty
 * all day have no statistics that hold: left to choose, the planner reads such a table once for each row of `source`.
 * "offset 0" keeps it from choosing.
 */
export const deleteByKey = (table: string, source: string, key: string): string =>
  `delete from ${table} where ctid = any(array(
    select place from ${source} cross join lateral (select o.ctid as place from ${table} o where ${key} offset 0) found))`;
