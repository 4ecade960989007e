import { useVirtualizer } from '@tanstack/react-virtual';
import { type CSSProperties, type ReactNode, useEffect, useRef } from 'react';
import './long-table.css';

const ROW_PX = 46;
/** Rows below what is seen for which more is loaded ahead. */
const LOAD_AHEAD_ROWS = 60;

export interface Column<Row> {
  title: string;
  /** Of a CSS grid, as `minmax(8rem, 2fr)`. */
  width: string;
  /** Left out on a small screen. */
  extra?: boolean;
  cell(row: Row): ReactNode;
}

export interface VirtualTableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf(row: Row): string;
  isComplete: boolean;
  loadMore(): void;
}

/** Any number of rows, of which those in sight stand in the document. */
export function VirtualTable<Row>({ label, columns, rows, keyOf, isComplete, loadMore }: VirtualTableProps<Row>) {
  const scroller = useRef<HTMLTableSectionElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
    getItemKey: (index) => keyOf(rows[index] as Row),
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  const wanted = !isComplete && last + LOAD_AHEAD_ROWS >= rows.length;
  const ask = useRef(loadMore);
  ask.current = loadMore;
  // biome-ignore lint/correctness/useExhaustiveDependencies: after a page that was too short another one is wanted
  useEffect(() => {
    if (wanted) ask.current();
  }, [wanted, rows.length]);
  const widths = {
    '--columns': columns.map(({ width }) => width).join(' '),
    '--few-columns': columns
      .filter(({ extra }) => extra !== true)
      .map(({ width }) => width)
      .join(' '),
  } as CSSProperties;
  return (
    <table className="long card" style={widths} aria-label={label} aria-rowcount={isComplete ? rows.length + 1 : -1}>
      <thead>
        <tr className="long-row" aria-rowindex={1}>
          {columns.map(({ title, extra }) => (
            <th key={title} scope="col" className={extra ? 'extra' : ''}>
              {title}
            </th>
          ))}
        </tr>
      </thead>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard */}
      <tbody ref={scroller} tabIndex={0}>
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row of no cells, as tall as all rows; nothing in it takes the focus */}
        <tr aria-hidden="true" className="long-space" style={{ height: virtual.getTotalSize() }} />
        {items.map(({ key, index, start }) => (
          <tr key={key} className="long-row" aria-rowindex={index + 2} style={{ transform: `translateY(${start}px)` }}>
            {columns.map(({ title, extra, cell }) => (
              <td key={title} className={extra ? 'extra' : ''}>
                {cell(rows[index] as Row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
