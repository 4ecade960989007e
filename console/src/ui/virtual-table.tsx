import { useVirtualizer } from '@tanstack/react-virtual';
import { type CSSProperties, type ReactNode, useEffect, useRef } from 'react';
import './virtual-table.css';

const ROW_PX = 46;
/** Rows below the visible ones that are prefetched. */
const LOAD_AHEAD_ROWS = 60;

export interface Column<Row> {
  title: string;
  /** CSS grid track size: `minmax(8rem, 2fr)`. */
  width: string;
  /** Hidden on narrow screens. */
  hideOnNarrow?: boolean;
  /** Rows are never sorted by it. */
  isUnsorted?: boolean;
  cell(row: Row): ReactNode;
}

export interface VirtualTableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf(row: Row): string;
  isComplete: boolean;
  loadMore(): void;
  /** Makes the titles buttons that sort by their column. */
  sort?: TableSorting;
  /** Called with the indexes of the rendered rows when they change. */
  onVisibleRange?(first: number, last: number): void;
}

export interface TableSorting {
  /** Titles of columns with their direction. */
  directionOf(title: string): 'ascending' | 'descending' | 'none';
  sortBy(title: string): void;
}

/** Table that renders only the visible rows, for any number of rows. */
export function VirtualTable<Row>(props: VirtualTableProps<Row>) {
  const { label, columns, rows, keyOf, isComplete, loadMore, sort, onVisibleRange } = props;
  const scroller = useRef<HTMLTableSectionElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
    getItemKey: (index) => keyOf(rows[index] as Row),
  });
  const items = virtual.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  const needsMore = !isComplete && last + LOAD_AHEAD_ROWS >= rows.length;
  const loadMoreRef = useRef(loadMore);
  loadMoreRef.current = loadMore;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a page may be too short, so the effect also runs per page
  useEffect(() => {
    if (needsMore) loadMoreRef.current();
  }, [needsMore, rows.length]);
  const onVisibleRangeRef = useRef(onVisibleRange);
  onVisibleRangeRef.current = onVisibleRange;
  useEffect(() => onVisibleRangeRef.current?.(first, last), [first, last]);
  const widths = {
    '--columns': columns.map(({ width }) => width).join(' '),
    '--few-columns': columns
      .filter(({ hideOnNarrow }) => hideOnNarrow !== true)
      .map(({ width }) => width)
      .join(' '),
  } as CSSProperties;
  return (
    <table className="long card" style={widths} aria-label={label} aria-rowcount={isComplete ? rows.length + 1 : -1}>
      <thead>
        <tr className="long-row" aria-rowindex={1}>
          {columns.map(({ title, hideOnNarrow, isUnsorted = false }) => (
            <th
              key={title}
              scope="col"
              className={hideOnNarrow ? 'extra' : ''}
              {...(sort !== undefined && !isUnsorted && { 'aria-sort': sort.directionOf(title) })}
            >
              {sort === undefined || isUnsorted ? (
                title
              ) : (
                <button type="button" className="sort-button" onClick={() => sort.sortBy(title)}>
                  {title}
                </button>
              )}
            </th>
          ))}
        </tr>
      </thead>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard */}
      <tbody ref={scroller} tabIndex={0}>
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: an empty row with the height of all rows; nothing in it can take the focus */}
        <tr aria-hidden="true" className="long-space" style={{ height: virtual.getTotalSize() }} />
        {items.map(({ key, index, start }) => (
          <tr key={key} className="long-row" aria-rowindex={index + 2} style={{ transform: `translateY(${start}px)` }}>
            {columns.map(({ title, hideOnNarrow, cell }) => (
              <td key={title} className={hideOnNarrow ? 'extra' : ''}>
                {cell(rows[index] as Row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
