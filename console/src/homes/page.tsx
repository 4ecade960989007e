import { useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import type { getHome, listRooms } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Timeline } from '../timeline/timeline.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { FormButton } from '../ui/form-button.tsx';
import { textIn } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { HomeFields, homeChange } from './home-fields.tsx';
import '../administration/administration.css';

type Home = ResponseBody<typeof getHome>['home'];
type RoomListPage = ResponseBody<typeof listRooms>;
type Room = RoomListPage['rooms'][number];

/** Lists that show homes or rooms. */
const LISTS = ['/v1/homes?', '/v1/devices', '/v1/overview'];

/** Page of one home, with its rooms and the events of its devices. */
export function HomeDetailsPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ResponseBody<typeof getHome>>(`/v1/homes/${id}`);
  if (data === undefined || error?.status === 404) {
    return error === null ? <Loading what="Loading home" /> : <LoadError isWholePage problem={error} retry={refetch} />;
  }
  const { home } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{home.home_name}</h1>
          <p className="quiet">
            {home.timezone ?? 'no time zone'}, created <Time at={home.created_at} />
            {may('user') && (
              <>
                {' · '}
                <Link href={`/devices?home=${id}`}>Show devices</Link>
              </>
            )}
          </p>
        </div>
        {may('admin') && <HomeChanges home={home} />}
      </header>
      <Rooms home={home} />
      {may('user') && <Timeline path={`/v1/homes/${id}/timeline`} />}
    </>
  );
}

function HomeChanges({ home: { id, home_name, timezone } }: { home: Home }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  return (
    <div className="row-actions">
      <FormButton
        label="Edit"
        title={`Edit ${home_name}`}
        submitLabel="Save"
        stalePaths={[`/v1/homes/${id}`, ...LISTS]}
        changeOf={(given) => ({ method: 'PATCH', path: `/v1/homes/${id}`, body: homeChange(given) })}
      >
        <HomeFields name={home_name} timezone={timezone} />
      </FormButton>
      <ConfirmButton
        label="Delete"
        title={`Delete ${home_name}?`}
        confirmLabel="Delete home"
        change={{ method: 'DELETE', path: `/v1/homes/${id}` }}
        // Not the home itself, which no longer exists.
        stalePaths={[]}
        onSuccess={() => {
          navigate('/homes');
          void invalidatePaths(queries, LISTS);
        }}
      >
        <p>The home and its rooms are deleted. A home with active devices cannot be deleted: move its devices first.</p>
      </ConfirmButton>
    </div>
  );
}

function Rooms({ home }: { home: Home }) {
  const { may } = useSession();
  const path = `/v1/homes/${home.id}/rooms`;
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<RoomListPage, Room>(
    `${path}?limit=100`,
    ({ rooms }) => rooms,
  );
  const add = may('admin') && (
    <FormButton
      label="Add room"
      isPrimary
      title={`Add a room to ${home.home_name}`}
      submitLabel="Add room"
      stalePaths={[path]}
      changeOf={(given) => ({ method: 'POST', path, body: { name: textIn(given, 'name') } })}
    >
      <NameField placeholder="e.g. Kitchen" />
    </FormButton>
  );
  return (
    <section className="card" aria-labelledby="rooms">
      <header>
        <h2 id="rooms">Rooms</h2>
        {rows.length > 0 && add}
      </header>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading rooms" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="place" title="No rooms yet.">
          <p>Rooms are optional.</p>
          {add}
        </Empty>
      ) : (
        <>
          <Table label="Rooms" columns={['Room', 'Devices', ...(may('admin') ? ['Actions'] : [])]}>
            {rows.map((room) => (
              <Row key={room.id} room={room} path={`${path}/${room.id}`} stalePaths={[path, ...LISTS]} />
            ))}
          </Table>
          {!isComplete && (
            <button type="button" className="button" onClick={loadMore}>
              Show more rooms
            </button>
          )}
        </>
      )}
    </section>
  );
}

function Row({ room, path, stalePaths }: { room: Room; path: string; stalePaths: readonly string[] }) {
  const { may } = useSession();
  return (
    <tr>
      <th scope="row">
        <Link href={`/homes/${room.home_id}/rooms/${room.id}`}>{room.name}</Link>
      </th>
      <td>{may('user') && <Link href={`/devices?home=${room.home_id}&room=${room.id}`}>Show devices</Link>}</td>
      {may('admin') && (
        <td>
          <div className="row-actions">
            <FormButton
              label="Rename"
              about={room.name}
              title={`Rename ${room.name}`}
              submitLabel="Rename"
              stalePaths={stalePaths}
              changeOf={(given) => ({ method: 'PATCH', path, body: { name: textIn(given, 'name') } })}
            >
              <NameField value={room.name} />
            </FormButton>
            <ConfirmButton
              label="Delete"
              about={room.name}
              title={`Delete ${room.name}?`}
              confirmLabel="Delete room"
              change={{ method: 'DELETE', path }}
              stalePaths={stalePaths}
            >
              <p>Its devices stay in the home.</p>
            </ConfirmButton>
          </div>
        </td>
      )}
    </tr>
  );
}
