import type { ReactNode } from 'react';
import './table.css';

interface TableProps {
  /** Accessible name. */
  label: string;
  columns: readonly string[];
  /** Body rows. */
  children: ReactNode;
}

/** A table for few rows; it scrolls horizontally on narrow screens. */
export const Table = ({ label, columns, children }: TableProps) => (
  // biome-ignore lint/a11y/useSemanticElements: a scrollable region, not a group of fields
  // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard
  <div className="scroll" role="group" aria-label={label} tabIndex={0}>
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);
