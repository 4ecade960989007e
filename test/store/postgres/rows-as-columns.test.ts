import { describe, expect, it } from 'vitest';
import { rowsOfColumns, selectColumns } from '../../../src/store/postgres/rows-as-columns.ts';
import { fc } from '../../support/properties.ts';

describe('the rows of columns', () => {
  it('are the rows that the columns were made of, for any values', () => {
    const row = fc.record({
      id: fc.string(),
      count: fc.oneof(fc.integer(), fc.constant(null)),
      list: fc.array(fc.string(), { maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 20 }), (rows) => {
        const columns = {
          id: rows.length === 0 ? null : rows.map(({ id }) => id),
          count: rows.length === 0 ? null : rows.map(({ count }) => count),
          list: rows.length === 0 ? null : rows.map(({ list }) => list),
        };
        expect(rowsOfColumns(columns)).toEqual(rows.map(({ id, count, list }) => ({ id, count, list })));
      }),
    );
  });

  it('are none without a column', () => {
    expect(rowsOfColumns({})).toEqual([]);
  });
});

it('a query of columns names each of them', () => {
  expect(selectColumns(['id', 'homeId'], 'select 1')).toBe(
    `select json_build_object('id', array_agg(r."id"), 'homeId', array_agg(r."homeId")) as columns
   from (select 1) r`,
  );
});
