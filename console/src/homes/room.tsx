import { Link } from 'wouter';
import type { getHome, getRoom } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Timeline } from '../timeline/timeline.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';

/** Page of one room, with the events of its devices. */
export function RoomPage({ params: { id = '', room: roomId = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const path = `/v1/homes/${id}/rooms/${roomId}`;
  const { data, error, refetch } = useGet<ResponseBody<typeof getRoom>>(path);
  const home = useGet<ResponseBody<typeof getHome>>(`/v1/homes/${id}`);
  if (data === undefined || error?.status === 404) {
    return error === null ? <Loading what="Loading room" /> : <LoadError problem={error} retry={refetch} />;
  }
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{data.room.name}</h1>
          <p className="quiet">
            <Link href={`/homes/${id}`}>{home.data?.home.home_name ?? 'Home'}</Link>
            {may('user') && (
              <>
                {' · '}
                <Link href={`/devices?home=${id}&room=${roomId}`}>Show devices</Link>
              </>
            )}
          </p>
        </div>
      </header>
      {may('user') && <Timeline path={`${path}/timeline`} />}
    </>
  );
}
