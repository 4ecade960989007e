import { describe, expect, it } from 'vitest';
import { fitWidths } from '../../src/cli/table-widths.ts';

/** Widths of a table with these columns, each with its head. */
function widthsIn(available: number, ...columns: string[][]): number[] {
  const widths = columns.map((column) => Math.max(...column.map(({ length }) => length)));
  return fitWidths(columns, widths, available);
}

const ids = ['0195d9a2-7f00-7000-8000-000000000001', '0195d9a2-7f11-7000-8000-000000000002'];
const name = 'n'.repeat(30);

describe('the columns of a table', () => {
  it('keep their widths if they fit', () => {
    expect(widthsIn(66, ['ID', ...ids], ['NAME', name, 'x'])).toEqual([36, 30]);
  });

  it('are shortened from the widest on', () => {
    expect(widthsIn(56, ['ID', ...ids], ['NAME', name, 'x'])).toEqual([28, 28]);
    expect(widthsIn(40, ['KIND', 'device'], ['DATA', 'd'.repeat(90)])).toEqual([6, 34]);
  });

  it('of ids show where the ids differ, while other columns can be shortened', () => {
    // The ids differ at the twelfth character, and the ellipsis takes a column.
    expect(widthsIn(20, ['ID', ...ids], ['NAME', name, 'x'])).toEqual([13, 7]);
    expect(widthsIn(16, ['ID', ids[0] as string], ['NAME', name])).toEqual([9, 7]);
  });

  it('fit a narrow terminal too', () => {
    const widths = widthsIn(10, ['ID', ...ids], ['NAME', name, 'x'], ['STATUS', 'offline', 'online']);
    expect(widths.reduce((sum, width) => sum + width)).toBe(10);
  });
});
