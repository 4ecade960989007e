import type { ReactNode } from 'react';
import './table.css';

interface TableProps {
  /** What it lists, for who cannot see it. */
  label: string;
  columns: readonly string[];
  /** Rows of the body. */
  children: ReactNode;
}

/** A table of a few rows; a narrow screen pushes it to and fro within its place. */
export const Table = ({ label, columns, children }: TableProps) => (
  // biome-ignore lint/a11y/useSemanticElements: it groups no fields, it scrolls
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard
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
