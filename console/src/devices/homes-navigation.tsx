import { Link } from 'wouter';
import type { listHomes, listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { LoadError } from '../ui/feedback.tsx';

const current = (is: boolean) => (is ? { 'aria-current': 'true' as const } : {});

/** Navigation by home, with the rooms of the selected home. */
export function HomesNavigation({ query }: { query: URLSearchParams }) {
  const { data, error, refetch } = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200');
  const home = query.get('home');
  const { may } = useSession();
  if (data === undefined && error !== null) return <LoadError problem={error} retry={refetch} />;
  return (
    <nav className="places card" aria-label="Homes and rooms">
      <ul>
        <li>
          <Link href="/devices" {...current(home === null)}>
            All homes
          </Link>
        </li>
        {data?.homes.map(({ id, home_name }) => (
          <li key={id}>
            <Link href={`/devices?home=${id}`} {...current(home === id && !query.has('room'))}>
              {home_name}
            </Link>
            {home === id && <Rooms home={id} room={query.get('room')} />}
          </li>
        ))}
      </ul>
      {data?.next_cursor != null && <p className="quiet small">Only the newest 200 homes are shown.</p>}
      {may('admin') && (
        <Link href="/homes" className="small">
          Manage homes
        </Link>
      )}
    </nav>
  );
}

function Rooms({ home, room }: { home: string; room: string | null }) {
  const { data } = useGet<ResponseBody<typeof listRooms>>(`/v1/homes/${home}/rooms?limit=200`);
  if (data === undefined || data.rooms.length === 0) return null;
  return (
    <ul>
      {data.rooms.map(({ id, name }) => (
        <li key={id}>
          <Link href={`/devices?home=${home}&room=${id}`} {...current(room === id)}>
            {name}
          </Link>
        </li>
      ))}
    </ul>
  );
}
