import type { listSessions } from '../../../src/operations/identity/sessions.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { ME_PATH } from '../api/client.ts';
import { useGet } from '../api/queries.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { clientName } from './client-name.ts';
import './administration.css';

type Session = ResponseBody<typeof listSessions>['sessions'][number];

const SESSIONS = '/v1/auth/sessions';

const kinds: Readonly<Record<Session['kind'], string>> = {
  browser: 'Browser',
  command_line: 'Command line',
  token: 'Token',
};

/** The sessions of the user: browsers, command lines and other tokens. */
export function SessionsPage() {
  const { data, error, refetch } = useGet<ResponseBody<typeof listSessions>>(`${SESSIONS}?limit=200`);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Sessions</h1>
          <p className="quiet">Where you are signed in. API keys are not sessions and stay valid.</p>
        </div>
        <ConfirmButton
          label="Sign out everywhere"
          title="Sign out everywhere?"
          confirmLabel="Sign out everywhere"
          change={{ method: 'DELETE', path: SESSIONS }}
          stalePaths={[SESSIONS, ME_PATH]}
        >
          <p>All your sessions and tokens end immediately, also this one. API keys stay valid.</p>
        </ConfirmButton>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading sessions" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <section className="card" aria-label="Sessions">
          <Table label="Sessions" columns={['Session', 'Address', 'Signed in', 'Last used', 'Ends', 'Actions']}>
            {data.sessions.map((session) => (
              <Row key={session.id} of={session} />
            ))}
          </Table>
          {data.next_cursor !== null && <p className="quiet">Only the newest 200 sessions are shown.</p>}
        </section>
      )}
    </>
  );
}

const Row = ({ of: session }: { of: Session }) => (
  <tr>
    <th scope="row">
      {kinds[session.kind]} {session.current && <Pill tone="good">this browser</Pill>}
      {session.client !== null && (
        <p className="quiet small what" title={session.client}>
          {clientName(session.client)}
        </p>
      )}
    </th>
    <td className="quiet">{session.address ?? '–'}</td>
    <td className="quiet">
      <Time at={session.signed_in_at} />
    </td>
    <td className="quiet">
      <Time at={session.last_used_at} />
    </td>
    <td className="quiet">
      <Time at={session.expires_at} />
    </td>
    <td>
      <div className="row-actions">
        <ConfirmButton
          label="End"
          about={`${kinds[session.kind]} ${clientName(session.client ?? '')}`.trim()}
          title="End this session?"
          confirmLabel="End session"
          change={{ method: 'DELETE', path: `${SESSIONS}/${session.id}` }}
          stalePaths={[SESSIONS, ME_PATH]}
        >
          <p>
            It ends immediately, with everything that was derived from it, such as command lines that it approved.
            {session.current && ' You are using this session.'}
          </p>
        </ConfirmButton>
      </div>
    </td>
  </tr>
);
