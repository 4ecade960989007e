import { useState } from 'react';
import { type ListView, MAX_LOADED_ROWS } from './list-view.ts';
import './list-controls.css';

/** Choice of columns and CSV export of a list. */
export function ListControls<Row>({ of: view }: { of: ListView<Row> }) {
  const [, ...choosable] = view.all;
  const [isOpen, setOpen] = useState(false);
  return (
    <div className="list-controls">
      <details className="column-choice" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary className="button">Columns</summary>
        {isOpen && (
          <fieldset className="card">
            <legend className="unseen">Shown columns</legend>
            {choosable.map((column) => (
              <label key={column.id}>
                <input
                  type="checkbox"
                  checked={view.isShown(column)}
                  onChange={({ target }) => view.setShown(column.id, target.checked)}
                />
                {column.title}
              </label>
            ))}
          </fieldset>
        )}
      </details>
      <button type="button" className="button" disabled={view.isExporting} onClick={view.exportCsv}>
        {view.isExporting ? 'Loading …' : 'Export CSV'}
      </button>
      {view.isCut && (
        <p className="quiet small" role="status">
          Only the newest {MAX_LOADED_ROWS.toLocaleString()} rows are sorted and exported.
        </p>
      )}
    </div>
  );
}
