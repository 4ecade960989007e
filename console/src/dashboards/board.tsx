import type { CSSProperties, ReactNode } from 'react';
import type { TilePlace } from '../../../src/domain/dashboard-grid.ts';
import { ErrorBoundary } from '../shell/error-boundary.tsx';
import { Empty } from '../ui/feedback.tsx';
import { Time } from '../ui/time.tsx';
import type { Tile } from './dashboard-types.ts';
import { useOutdatedSince } from './freshness.ts';
import { inReadingOrder } from './layout.ts';
import { TileBody } from './tile-body.tsx';
import { useTileDevices } from './use-tile-devices.ts';
import './board.css';

/** The place of a tile on the grid; on a small screen the tiles are below each other. */
export const placeStyle = ({ x, y, w, h }: TilePlace): CSSProperties =>
  ({ '--column': `${x + 1} / span ${w}`, '--row': `${y + 1} / span ${h}` }) as CSSProperties;

export const tileTitle = ({ kind, title }: Tile): string | undefined =>
  title ?? (kind === 'confirmations' ? 'Waiting for confirmation' : undefined);

interface BoardProps {
  tiles: readonly Tile[];
  /** Whether the user's role may see devices. */
  isLive: boolean;
  /** What can be done about a board without tiles. */
  children?: ReactNode;
}

/** The tiles of a dashboard, kept up to date. */
export function Board({ tiles, isLive, children }: BoardProps) {
  useTileDevices(tiles, { enabled: isLive });
  const isOutdated = useOutdatedSince() !== null;
  if (tiles.length === 0) {
    return (
      <Empty icon="dashboard" title="This dashboard has no tiles yet.">
        {children}
      </Empty>
    );
  }
  return (
    <ul className="board" data-outdated={isOutdated}>
      {inReadingOrder(tiles).map((tile) => (
        <li key={tile.id} className="card board-tile" style={placeStyle(tile)} data-kind={tile.kind}>
          <TileContent tile={tile} />
        </li>
      ))}
    </ul>
  );
}

export function TileContent({ tile }: { tile: Tile }): ReactNode {
  const title = tileTitle(tile);
  const since = useOutdatedSince();
  return (
    <>
      {title !== undefined && <h2 className="tile-title">{title}</h2>}
      {/* A tile that fails leaves the others as they are, for example on a wall. */}
      <ErrorBoundary key={JSON.stringify(tile)}>
        <TileBody tile={tile} />
      </ErrorBoundary>
      {since !== null && showsState(tile) && (
        <p className="tile-age small">
          As of <Time at={since} exact />
        </p>
      )}
    </>
  );
}

/** Whether the content may be outdated. */
const showsState = ({ kind }: Tile): boolean => kind !== 'text' && kind !== 'command';
