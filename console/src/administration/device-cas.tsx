import type { listCas } from '../../../src/operations/device-cas/device-cas.ts';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useUserNames } from '../people/user-names.ts';
import { useNow } from '../ui/clock.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { abbreviateId } from '../ui/text-format.ts';
import { Day, Time } from '../ui/time.tsx';
import { RegisterCa } from './ca-registration.tsx';
import './administration.css';

type Ca = ResponseBody<typeof listCas>['cas'][number];
type Rule = NonNullable<Ca['registration']>;

const CAS = '/v1/cas';
const DAY_MS = 86_400_000;
/** A CA certificate that ends sooner is marked. */
const SOON_MS = 30 * DAY_MS;

/** Certificate authorities whose certificates sign in devices. */
export function DeviceCasPage() {
  const { data, error, refetch } = useGet<ResponseBody<typeof listCas>>(CAS);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Device CAs</h1>
          <p className="quiet">
            Devices sign in with certificates of these certificate authorities, over MQTT with mutual TLS.
          </p>
        </div>
        <RegisterCa />
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading CAs" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.cas.length === 0 ? (
        <Empty icon="certificate" title="No CAs yet.">
          Register the CA that issues certificates to your devices.
        </Empty>
      ) : (
        <section className="card" aria-label="CAs">
          <Table
            label="Certificate authorities"
            columns={['Name', 'Status', 'Valid until', 'Registration rule', 'Devices', 'Actions']}
          >
            {data.cas.map((ca) => (
              <tr key={ca.id}>
                <th scope="row">
                  {ca.name}
                  <p className="quiet small what">{ca.subject}</p>
                </th>
                <td>
                  <Pill tone={ca.status === 'active' ? 'good' : 'quiet'}>{ca.status}</Pill>
                </td>
                <td>
                  <Validity until={ca.not_after} />
                </td>
                <td>
                  {ca.registration === null ? <span className="quiet">none</span> : <RuleText of={ca.registration} />}
                </td>
                <td>{ca.bound_devices}</td>
                <td>
                  <Changes of={ca} />
                </td>
              </tr>
            ))}
          </Table>
        </section>
      )}
    </>
  );
}

function Validity({ until }: { until: string }) {
  const left = Date.parse(until) - useNow();
  return (
    <>
      <Day at={until} />
      {left < SOON_MS && (
        <p className="small what">
          <Pill tone={left < 0 ? 'bad' : 'warn'}>{left < 0 ? 'expired' : 'ends soon'}</Pill>
        </p>
      )}
    </>
  );
}

/** What a rule registers, and who set it with the role that they have now: the rule does not depend on it. */
function RuleText({ of: rule }: { of: Rule }) {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200').data?.homes;
  const nameOf = useUserNames();
  const home = homes?.find(({ id }) => id === rule.home_id)?.home_name ?? abbreviateId(rule.home_id);
  const role = rule.set_by_role;
  return (
    <>
      {rule.device_type} into {home}
      {rule.subject_pattern !== null && `, common names ${rule.subject_pattern}`}
      {`, at most ${rule.max_devices}`}
      <p className="quiet small what">
        Set by {nameOf(rule.set_by)}
        {rule.set_at !== null && (
          <>
            {' '}
            <Time at={rule.set_at} />
          </>
        )}
        {role === null ? ', no longer a member' : role !== 'admin' && role !== 'owner' && `, now ${role}`}
      </p>
    </>
  );
}

function Changes({ of: { id, name, subject, status } }: { of: Ca }) {
  const path = `${CAS}/${id}`;
  return (
    <div className="row-actions">
      <RegisterCa renewed={{ name, subject }} />
      {status === 'active' ? (
        <ConfirmButton
          label="Deactivate"
          about={name}
          title={`Deactivate ${name}?`}
          confirmLabel="Deactivate CA"
          change={{ method: 'PATCH', path, body: { status: 'inactive' } }}
          stalePaths={[CAS]}
        >
          <p>The connections of its devices end, and none of its certificates signs in until it is activated again.</p>
        </ConfirmButton>
      ) : (
        <ConfirmButton
          label="Activate"
          about={name}
          title={`Activate ${name}?`}
          confirmLabel="Activate CA"
          tone="primary"
          change={{ method: 'PATCH', path, body: { status: 'active' } }}
          stalePaths={[CAS]}
        >
          <p>Devices sign in with its certificates again, except revoked ones.</p>
        </ConfirmButton>
      )}
      <ConfirmButton
        label="Delete"
        about={name}
        title={`Delete ${name}?`}
        confirmLabel="Delete CA"
        change={{ method: 'DELETE', path }}
        stalePaths={[CAS]}
      >
        <p>
          The connections of its devices end, and its certificates no longer sign in. The devices stay. If you register
          the CA again, its bound devices and its revocations apply as long as the journal is kept.
        </p>
      </ConfirmButton>
    </div>
  );
}
