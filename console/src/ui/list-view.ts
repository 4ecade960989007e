import { useEffect, useMemo, useState } from 'react';
import { csvRecord } from '../../../src/domain/csv.ts';
import { type ChangeQuery, setFilters } from './query-filters.ts';
import type { Column, TableSorting } from './virtual-table.tsx';

// Sorting, choice of columns and export of a list that is loaded in pages.

/** Rows that are loaded in order to be sorted or exported; with more rows, these are the newest ones. */
export const MAX_LOADED_ROWS = 2_000;

export interface ListColumn<Row> extends Column<Row> {
  /** For the address and the stored choice. */
  id: string;
  /** The cell's content for sorting and CSV; times are in ISO 8601. */
  value(row: Row): string | number | null;
  /** Hidden until the user chooses it. */
  isOptional?: boolean;
}

export interface Sorting {
  id: string;
  descending: boolean;
}

/** The sorting in an address: `battery`, or `-battery` for the highest value first. */
export function sortingFrom(text: string | null, columns: readonly { id: string }[]): Sorting | null {
  const id = text?.replace(/^-/, '') ?? '';
  return columns.some((column) => column.id === id) ? { id, descending: text?.startsWith('-') === true } : null;
}

/** Ascending, descending, and then the list's own order. */
export function nextSorting(now: Sorting | null, id: string): Sorting | null {
  if (now?.id !== id) return { id, descending: false };
  return now.descending ? null : { id, descending: true };
}

const textOrder = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

function compareValues(one: string | number, other: string | number): number {
  return typeof one === 'number' && typeof other === 'number' ? one - other : textOrder.compare(`${one}`, `${other}`);
}

/** Rows without a value are last in both directions; rows with equal values keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly ListColumn<Row>[],
  sorting: Sorting | null,
): readonly Row[] {
  const column = columns.find(({ id }) => id === sorting?.id);
  if (sorting === null || column === undefined) return rows;
  const sign = sorting.descending ? -1 : 1;
  return rows
    .map((row) => ({ row, value: column.value(row) }))
    .sort((a, b) => {
      if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
      return sign * compareValues(a.value, b.value);
    })
    .map(({ row }) => row);
}

/** The file that spreadsheets open: a header and one record for each row. */
export const csvOf = <Row>(rows: readonly Row[], columns: readonly ListColumn<Row>[]): string =>
  [
    csvRecord(columns.map(({ title }) => title)),
    ...rows.map((row) => csvRecord(columns.map(({ value }) => value(row)))),
  ].join('');

/** Saves a text as a file of the browser. */
export function saveFile(name: string, type: string, text: string): void {
  // Spreadsheets read UTF-8 only with a byte order mark.
  saveBlob(name, new Blob(['\ufeff', text], { type }));
}

/** Saves bytes as a file of the browser. */
export function saveBlob(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

const keyOf = (list: string): string => `twinkeep.columns.${list}`;

/** Column id → whether it is shown, for the columns that the user has changed. */
type Choice = Readonly<Record<string, boolean>>;

function storedChoice(list: string): Choice {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(keyOf(list)) ?? '{}');
    return typeof stored === 'object' && stored !== null ? (stored as Choice) : {};
  } catch {
    return {};
  }
}

export interface ListView<Row> {
  /** The name in the stored choice and of the file. */
  list: string;
  all: readonly ListColumn<Row>[];
  shown: readonly ListColumn<Row>[];
  isShown(column: ListColumn<Row>): boolean;
  setShown(id: string, shown: boolean): void;
  rows: readonly Row[];
  sorting: Sorting | null;
  sortBy(id: string): void;
  /** Saves the rows as CSV, when all of them, or `MAX_LOADED_ROWS`, are loaded. */
  exportCsv(): void;
  isExporting: boolean;
  /** Whether there are more rows than are loaded in order to be sorted or exported. */
  isCut: boolean;
}

interface ListViewParts<Row> {
  list: string;
  columns: readonly ListColumn<Row>[];
  /** The loaded rows that match the filters. */
  rows: readonly Row[];
  /** Number of loaded rows, with those that do not match. */
  loaded: number;
  isComplete: boolean;
  /** A page, or a part of the columns' values, is being loaded. */
  isFetching: boolean;
  /** The last page could not be loaded. */
  hasFailed: boolean;
  loadMore(): void;
  query: URLSearchParams;
  changeQuery: ChangeQuery;
}

/** The first column is always shown. The sorting is in the address, the choice of columns in the browser's storage. */
export function useListView<Row>(parts: ListViewParts<Row>): ListView<Row> {
  const { list, columns, rows, loaded, isComplete, isFetching, hasFailed, loadMore, query, changeQuery } = parts;
  const [choice, setChoice] = useState(() => storedChoice(list));
  const [isExporting, setExporting] = useState(false);
  const isShown = (column: ListColumn<Row>): boolean =>
    column === columns[0] || (choice[column.id] ?? column.isOptional !== true);
  const shown = columns.filter(isShown);
  const sortText = query.get('sort');
  const sorting = sortingFrom(sortText, columns);
  const isLoadedEnough = isComplete || loaded >= MAX_LOADED_ROWS;
  const mustLoad = !isLoadedEnough && (sorting !== null || isExporting);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each loaded page
  useEffect(() => {
    if (mustLoad && !isFetching && !hasFailed) loadMore();
  }, [mustLoad, loaded, isFetching, hasFailed]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `sorting` is made of `sortText`
  const sorted = useMemo(() => sortRows(rows, columns, sorting), [rows, columns, sortText]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: saves once, when enough rows are loaded
  useEffect(() => {
    if (!isExporting || isFetching || !(isLoadedEnough || hasFailed)) return;
    setExporting(false);
    // A list that could not be loaded is not saved in part.
    if (isLoadedEnough) saveFile(`${list}.csv`, 'text/csv;charset=utf-8', csvOf(sorted, shown));
  }, [isExporting, isLoadedEnough, isFetching, hasFailed]);
  return {
    ...{ list, all: columns, shown, isShown, rows: sorted, sorting, isExporting },
    isCut: !isComplete && loaded >= MAX_LOADED_ROWS,
    setShown(id, isNowShown) {
      const after = { ...choice, [id]: isNowShown };
      setChoice(after);
      try {
        localStorage.setItem(keyOf(list), JSON.stringify(after));
      } catch {
        // Without storage the choice lasts until the page is closed.
      }
    },
    sortBy(id) {
      const next = nextSorting(sorting, id);
      setFilters(changeQuery, { sort: next && `${next.descending ? '-' : ''}${next.id}` });
    },
    exportCsv: () => setExporting(true),
  };
}

/** The sorting of a list as its table shows it. */
export const tableSorting = <Row>({ all, sorting, sortBy }: ListView<Row>): TableSorting => ({
  directionOf(title) {
    const column = all.find((one) => one.title === title);
    if (sorting === null || column?.id !== sorting.id) return 'none';
    return sorting.descending ? 'descending' : 'ascending';
  },
  sortBy(title) {
    const column = all.find((one) => one.title === title);
    if (column !== undefined) sortBy(column.id);
  },
});
