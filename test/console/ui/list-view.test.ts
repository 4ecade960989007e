import { describe, expect, it } from 'vitest';
import { csvOf, type ListColumn, nextSorting, sortingFrom, sortRows } from '../../../console/src/ui/list-view.ts';

interface Row {
  name: string;
  battery: number | null;
}

const column = (id: string, title: string, value: ListColumn<Row>['value']): ListColumn<Row> => ({
  ...{ id, title, value, width: '1fr', cell: value },
});
const columns = [column('name', 'Device', ({ name }) => name), column('battery', 'Battery', ({ battery }) => battery)];
const rows: readonly Row[] = [
  { name: 'Lamp 10', battery: null },
  { name: 'Lamp 9', battery: 40 },
  { name: 'élan', battery: 100 },
  { name: '=1+1', battery: 7 },
];
const sorted = (id: string, descending: boolean) => sortRows(rows, columns, { id, descending }).map(({ name }) => name);

describe('a list', () => {
  it('is sorted by numbers as numbers, with empty cells last in both directions', () => {
    expect(sorted('battery', false)).toEqual(['=1+1', 'Lamp 9', 'élan', 'Lamp 10']);
    expect(sorted('battery', true)).toEqual(['élan', 'Lamp 9', '=1+1', 'Lamp 10']);
  });

  it('is sorted by texts with numbers in them as people read them', () => {
    expect(sorted('name', false)).toEqual(['=1+1', 'élan', 'Lamp 9', 'Lamp 10']);
  });

  it('keeps its order without a sorting', () => {
    expect(sortRows(rows, columns, null)).toBe(rows);
  });

  it('reads the sorting from an address, and ignores unknown columns', () => {
    expect(sortingFrom('battery', columns)).toEqual({ id: 'battery', descending: false });
    expect(sortingFrom('-battery', columns)).toEqual({ id: 'battery', descending: true });
    expect([sortingFrom(null, columns), sortingFrom('other', columns)]).toEqual([null, null]);
  });

  it('is sorted ascending, descending, and not at all, in turn', () => {
    const first = nextSorting(null, 'name');
    const second = nextSorting(first, 'name');
    expect([first, second, nextSorting(second, 'name')]).toEqual([
      { id: 'name', descending: false },
      { id: 'name', descending: true },
      null,
    ]);
    expect(nextSorting(second, 'battery')).toEqual({ id: 'battery', descending: false });
  });

  it('is exported with the titles of its columns, and without formulas', () => {
    expect(csvOf(rows.slice(2), columns)).toBe('"Device","Battery"\r\n"élan",100\r\n"\'=1+1",7\r\n');
  });
});
