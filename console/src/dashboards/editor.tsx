import { useQueryClient } from '@tanstack/react-query';
import { useId, useRef, useState } from 'react';
import { MAX_TILES } from '../../../src/domain/dashboard-grid.ts';
import { invalidatePaths, useChange } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Empty } from '../ui/feedback.tsx';
import { Time } from '../ui/time.tsx';
import { Author } from './author.tsx';
import {
  DASHBOARDS,
  type DashboardBody,
  type DashboardDraft,
  type DashboardRecord,
  dashboardDraftOf,
  dashboardPath,
  type Tile,
} from './dashboard-types.ts';
import { EditBoard } from './edit-board.tsx';
import { TileDialog } from './tile-dialog.tsx';

const bodyOf = ({ name, homeId, tiles }: DashboardDraft) => ({ name: name.trim(), home_id: homeId, tiles });

/** Changes a stored dashboard. `stored` is refreshed while it is edited: a change of another person is overwritten only on request. */
export function DashboardEditor({ stored, onDone }: { stored: DashboardRecord; onDone(): void }) {
  const queries = useQueryClient();
  const change = useChange<DashboardBody>();
  const [base, setBase] = useState(stored);
  const path = dashboardPath(stored.id);
  const conflicting = change.error?.code === 'CONFLICT' || stored.version > base.version ? stored : null;
  const [asks, setAsks] = useState(false);
  const save = (draft: DashboardDraft, version: number): void =>
    change.mutate(
      { method: 'PUT', path, body: { version, ...bodyOf(draft) } },
      {
        onSuccess(answer) {
          queries.setQueryData<DashboardBody>([path], answer);
          void invalidatePaths(queries, [`${DASHBOARDS}?`]);
          onDone();
        },
        onError(problem) {
          if (problem.code !== 'CONFLICT') return;
          void invalidatePaths(queries, [path]).then(() => setAsks(true));
        },
      },
    );
  return (
    <DraftEditor
      key={base.version}
      initial={dashboardDraftOf(base)}
      error={change.error?.code === 'CONFLICT' ? null : change.error}
      isSaving={change.isPending}
      onCancel={onDone}
      onSave={(draft) => save(draft, base.version)}
    >
      {(draft) =>
        asks &&
        conflicting !== null && (
          <Dialog title="Changed by another person" onClose={() => setAsks(false)}>
            <p>
              <Author of={conflicting.changed_by} /> saved version {conflicting.version}{' '}
              <Time at={conflicting.changed_at} />, after you began to edit. Reload it and lose your changes, or
              overwrite it with yours.
            </p>
            <div className="actions">
              <button
                type="button"
                className="button"
                onClick={() => {
                  setAsks(false);
                  change.reset();
                  setBase(conflicting);
                }}
              >
                Reload
              </button>
              <button
                type="button"
                className="button danger"
                disabled={change.isPending}
                onClick={() => {
                  setAsks(false);
                  save(draft, conflicting.version);
                }}
              >
                Overwrite
              </button>
            </div>
          </Dialog>
        )
      }
    </DraftEditor>
  );
}

interface DraftEditorProps {
  initial: DashboardDraft;
  error: Error | null;
  isSaving: boolean;
  onSave(draft: DashboardDraft): void;
  onCancel(): void;
  children?(draft: DashboardDraft): React.ReactNode;
}

/** The form and the tiles of a dashboard that is not stored yet. */
export function DraftEditor({ initial, error, isSaving, onSave, onCancel, children }: DraftEditorProps) {
  const { may } = useSession();
  const [draft, setDraft] = useState(initial);
  /** The tile that the dialog changes, or a new one. */
  const [dialog, setDialog] = useState<Tile | 'new' | null>(null);
  const nameId = useId();
  const latest = useRef(draft);
  latest.current = draft;
  const setTiles = (tiles: readonly Tile[]): void => setDraft({ ...latest.current, tiles });
  const apply = (tile: Tile): void => {
    const { tiles } = latest.current;
    const isKnown = tiles.some(({ id }) => id === tile.id);
    setTiles(isKnown ? tiles.map((one) => (one.id === tile.id ? tile : one)) : [...tiles, tile]);
  };
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Edit {initial.name}</h1>
          <label htmlFor={nameId}>Name</label>
          <input
            id={nameId}
            value={draft.name}
            maxLength={100}
            autoComplete="off"
            onChange={({ target }) => setDraft({ ...draft, name: target.value })}
          />
        </div>
        <div className="board-links">
          <button
            type="button"
            className="button"
            disabled={draft.tiles.length >= MAX_TILES}
            onClick={() => setDialog('new')}
          >
            Add a tile …
          </button>
          <button type="button" className="button" onClick={onCancel}>
            Cancel
          </button>
          <button
            type="button"
            className="button primary"
            disabled={isSaving || draft.name.trim() === ''}
            onClick={() => onSave(draft)}
          >
            Save
          </button>
        </div>
      </header>
      <ChangeError error={error} />
      {draft.tiles.length === 0 ? (
        <Empty icon="dashboard" title="No tiles yet: add the first one." />
      ) : (
        <EditBoard tiles={draft.tiles} isLive={may('user')} onChange={setTiles} onEdit={setDialog} />
      )}
      {dialog !== null && (
        <TileDialog
          tile={dialog === 'new' ? null : dialog}
          tiles={draft.tiles}
          onSave={apply}
          onClose={() => setDialog(null)}
        />
      )}
      {children?.(draft)}
    </>
  );
}
