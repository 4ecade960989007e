import { type KeyboardEvent, type PointerEvent, useId, useRef, useState } from 'react';
import { Icon } from '../ui/icons.tsx';
import { placeStyle, TileContent, tileTitle } from './board.tsx';
import { kindNames, type Tile } from './dashboard-types.ts';
import { inReadingOrder, placeTile } from './layout.ts';
import { useTileDevices } from './use-tile-devices.ts';

interface EditBoardProps {
  tiles: readonly Tile[];
  isLive: boolean;
  onChange(tiles: Tile[]): void;
  onEdit(tile: Tile): void;
}

interface Drag {
  pointerId: number;
  startX: number;
  startY: number;
  tile: Tile;
  /** The tiles before the drag: those that were pushed return when the tile moves on. */
  before: readonly Tile[];
  isResize: boolean;
  columnPx: number;
  rowPx: number;
}

/** `Temperature: column 3, row 2, 4 wide, 2 high` */
const placeText = (tile: Tile): string =>
  `${nameOf(tile)}: column ${tile.x + 1}, row ${tile.y + 1}, ${tile.w} wide, ${tile.h} high`;

export const nameOf = (tile: Tile): string => tileTitle(tile) ?? kindNames[tile.kind];

const ROW_PX = 92;

/** The tiles while they are arranged, with the pointer or with the arrow keys. */
export function EditBoard({ tiles, isLive, onChange, onEdit }: EditBoardProps) {
  useTileDevices(tiles, { enabled: isLive });
  const board = useRef<HTMLUListElement>(null);
  const drag = useRef<Drag | null>(null);
  const [announced, setAnnounced] = useState('');
  const help = useId();

  const place = (before: readonly Tile[], placed: Tile): void => {
    const after = placeTile(before, placed);
    onChange(after);
    const now = after.find(({ id }) => id === placed.id);
    if (now !== undefined) setAnnounced(placeText(now));
  };
  const begin = (event: PointerEvent<HTMLElement>, tile: Tile, isResize: boolean): void => {
    if (event.button !== 0 || board.current === null) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    drag.current = {
      ...{ pointerId: event.pointerId, startX: event.clientX, startY: event.clientY },
      ...{ tile, before: tiles, isResize, columnPx: board.current.clientWidth / 12, rowPx: ROW_PX },
    };
  };
  const move = ({ pointerId, clientX, clientY }: PointerEvent<HTMLElement>): void => {
    const { current } = drag;
    if (current?.pointerId !== pointerId) return;
    const { tile, before, isResize, startX, startY, columnPx, rowPx } = current;
    const [dx, dy] = [Math.round((clientX - startX) / columnPx), Math.round((clientY - startY) / rowPx)];
    place(before, isResize ? resized(tile, dx, dy) : { ...tile, x: tile.x + dx, y: tile.y + dy });
  };
  const end = (): void => {
    drag.current = null;
  };
  const cancel = (): void => {
    if (drag.current !== null) onChange([...drag.current.before]);
    end();
  };
  const onKey = (event: KeyboardEvent<HTMLElement>, tile: Tile): void => {
    if (event.key === 'Escape' && drag.current !== null) {
      event.preventDefault();
      cancel();
      return;
    }
    const step = arrows[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const [dx, dy] = step;
    place(tiles, event.shiftKey ? resized(tile, dx, dy) : { ...tile, x: tile.x + dx, y: tile.y + dy });
  };
  return (
    <>
      <p id={help} className="quiet small">
        Drag a tile by its handle, and its size by the corner. On the handle the arrow keys move the tile, and with
        Shift they change its size.
      </p>
      <p className="unseen" role="status" aria-live="polite">
        {announced}
      </p>
      <ul className="board editing" ref={board}>
        {inReadingOrder(tiles).map((tile) => (
          <li key={tile.id} className="card board-tile" style={placeStyle(tile)} data-kind={tile.kind}>
            <div className="tile-tools">
              <button
                type="button"
                className="icon-button tile-handle"
                aria-label={`Move ${nameOf(tile)}`}
                aria-describedby={help}
                onPointerDown={(event) => begin(event, tile, false)}
                onPointerMove={move}
                onPointerUp={end}
                onPointerCancel={cancel}
                onKeyDown={(event) => onKey(event, tile)}
              >
                <Icon name="menu" />
              </button>
              <button
                type="button"
                className="button"
                aria-label={`Change … ${nameOf(tile)}`}
                onClick={() => onEdit(tile)}
              >
                Change …
              </button>
              <button
                type="button"
                className="icon-button"
                aria-label={`Remove ${nameOf(tile)}`}
                onClick={() => {
                  onChange(tiles.filter(({ id }) => id !== tile.id));
                  setAnnounced(`${nameOf(tile)} was removed`);
                }}
              >
                <Icon name="close" />
              </button>
            </div>
            <div inert>
              <TileContent tile={tile} />
            </div>
            <span
              className="tile-corner"
              aria-hidden="true"
              onPointerDown={(event) => begin(event, tile, true)}
              onPointerMove={move}
              onPointerUp={end}
              onPointerCancel={cancel}
            />
          </li>
        ))}
      </ul>
    </>
  );
}

const arrows: Readonly<Record<string, readonly [dx: number, dy: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The left column stays: a tile at the right edge does not grow over it. */
const resized = (tile: Tile, dx: number, dy: number): Tile => ({
  ...tile,
  w: Math.min(12 - tile.x, Math.max(1, tile.w + dx)),
  h: Math.max(1, tile.h + dy),
});
