import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { getHome, listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import type { Problem } from '../api/problem.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { Board } from './board.tsx';
import { CopyLink } from './copy-link.tsx';
import { DASHBOARDS, type DashboardBody, dashboardHref, homeDashboardHref, type Tile } from './dashboard-types.ts';
import { DraftEditor } from './editor.tsx';
import { type HomeDevice, homeTiles } from './home-tiles.ts';
import { Wall } from './wall.tsx';
import './board.css';

const REFRESH_MS = 60_000;
const MAX_DEVICES = 50;

const QUERY = `query ($home: ID!, $first: Int) {
  devices(homeId: $home, revoked: false, first: $first) { nodes { id deviceType state room { id } } }
}`;

interface Answer {
  data?: {
    devices: { nodes: { id: string; deviceType: string; state: JsonObject; room: { id: string } | null }[] } | null;
  };
}

/** The tiles that are derived from a home; undefined while they are loaded. */
export function useHomeTiles(homeId: string): {
  tiles: readonly Tile[] | undefined;
  problem: Problem | null;
  readAt: number;
} {
  const { may } = useSession();
  const rooms = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${homeId}/rooms?limit=200`, {
    refetchIntervalMs: REFRESH_MS,
  });
  const devices = useQuery<HomeDevice[], Problem>({
    queryKey: ['devices of a derived dashboard', homeId],
    queryFn: async () => {
      const variables = { home: homeId, first: MAX_DEVICES };
      const { data } = await requestJson<Answer>('POST', '/graphql', { body: { query: QUERY, variables } });
      return (data?.devices?.nodes ?? []).map(({ id, deviceType, state, room }) => ({
        ...{ id, device_type: deviceType, room_id: room?.id ?? null, state },
      }));
    },
    refetchInterval: REFRESH_MS,
    enabled: may('user'),
  });
  const problem = rooms.error ?? devices.error;
  const readAt = rooms.dataUpdatedAt;
  if (rooms.data === undefined || (may('user') && devices.data === undefined))
    return { tiles: undefined, problem, readAt };
  const roomIds = rooms.data.rooms.map(({ id }) => id);
  const isComplete = devices.data !== undefined && devices.data.length < MAX_DEVICES;
  return { tiles: homeTiles(homeId, roomIds, devices.data ?? [], { isComplete }), problem, readAt };
}

/** The default dashboard of a home: derived from its devices, and stored as a copy when it is changed. */
export function HomeDashboardPage({ params: { home: homeId = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const [query] = useSearchParams();
  const home = useGet<ResponseBody<typeof getHome>>(`/v1/homes/${homeId}`);
  const { tiles, problem, readAt } = useHomeTiles(homeId);
  /** As derived when the editing began. */
  const [edited, setEdited] = useState<readonly Tile[] | null>(null);
  if (home.data === undefined || home.error?.status === 404 || tiles === undefined) {
    const failed = home.error ?? (tiles === undefined ? problem : null);
    return failed === null ? (
      <Loading what="Loading dashboard" />
    ) : (
      <LoadError isWholePage problem={failed} retry={home.refetch} />
    );
  }
  const name = home.data.home.home_name;
  if (edited !== null) return <NewFromHome {...{ name, homeId, tiles: edited }} onCancel={() => setEdited(null)} />;
  if (query.has('wall'))
    return <Wall {...{ name, tiles, readAt }} href={homeDashboardHref(homeId)} hasFailed={problem !== null} />;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{name}</h1>
          <p className="quiet">
            <Link href={`/homes/${homeId}`}>Home</Link> · chosen from its devices
          </p>
        </div>
        <div className="board-links">
          <CopyLink />
          <Link className="button" href={`${homeDashboardHref(homeId)}?wall`}>
            Wall view
          </Link>
          {may('admin') && (
            <button type="button" className="button" onClick={() => setEdited(tiles)}>
              Edit a copy
            </button>
          )}
        </div>
      </header>
      {tiles.length === 1 && (
        <Empty icon="device" title="This home has no devices that report values yet.">
          Its dashboard shows their values when they do.
        </Empty>
      )}
      <Board tiles={tiles} isLive={may('user')} />
    </>
  );
}

interface NewFromHomeProps {
  name: string;
  homeId: string;
  tiles: readonly Tile[];
  onCancel(): void;
}

function NewFromHome({ name, homeId, tiles, onCancel }: NewFromHomeProps) {
  const [, navigate] = useLocation();
  const change = useChange<DashboardBody>([`${DASHBOARDS}?`]);
  return (
    <DraftEditor
      initial={{ name, homeId, tiles }}
      error={change.error}
      isSaving={change.isPending}
      onCancel={onCancel}
      onSave={(draft) =>
        change.mutate(
          { method: 'POST', path: DASHBOARDS, body: { name: draft.name.trim(), home_id: homeId, tiles: draft.tiles } },
          { onSuccess: ({ dashboard }) => navigate(dashboardHref(dashboard.id)) },
        )
      }
    />
  );
}
