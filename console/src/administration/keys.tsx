import { useState } from 'react';
import { ALL_SCOPES } from '../../../src/domain/scopes.ts';
import type { listApiKeys } from '../../../src/operations/identity/api-keys.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useUserNames } from '../people/user-names.ts';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { SecretDialog } from '../ui/secret-dialog.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import type { CreatedKey } from './created-key.ts';
import { NewKey } from './new-key.tsx';
import { type Restriction, restrictionText, usePlaceNames } from './restriction-names.ts';
import './administration.css';

type Key = ResponseBody<typeof listApiKeys>['keys'][number];

const KEYS = '/v1/auth/api-keys';

/** API keys for programs: the user's own, and for admins the keys of all members. */
export function ApiKeysPage() {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ResponseBody<typeof listApiKeys>>(`${KEYS}?limit=200`);
  const [created, setCreated] = useState<CreatedKey | null>(null);
  const nameOf = useUserNames();
  const now = useNow();
  return (
    <>
      <header className="page-head">
        <div>
          <h1>API keys</h1>
          <p className="quiet">
            Programs sign in with a key. A key acts as its creator, within its scopes.
            {may('admin') && ' As an admin you see the keys of all members.'}
          </p>
        </div>
        <NewKey onCreated={setCreated} />
      </header>
      {created !== null && (
        <SecretDialog title={`Key ${created.name}`} noun="key" secret={created.key} onClose={() => setCreated(null)} />
      )}
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading keys" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.keys.length === 0 ? (
        <Empty icon="key" title="No keys yet.">
          Create one for each program, with only the scopes that it needs.
        </Empty>
      ) : (
        <section className="card" aria-label="Keys">
          <Table label="API keys" columns={['Key', 'Status', 'Permissions', 'Created by', 'Last used', 'Actions']}>
            {data.keys.map((key) => {
              const status = statusOf(key, now);
              return (
                <tr key={key.prefix}>
                  <th scope="row">
                    {key.name} <span className="mono quiet small">{key.prefix}</span>
                  </th>
                  <td>
                    <Pill tone={tones[status]}>{status}</Pill>
                    {key.expires_at !== null && status === 'active' && (
                      <p className="quiet small what">
                        {Date.parse(key.expires_at) > now ? 'ends' : 'ended'} <Time at={key.expires_at} />
                      </p>
                    )}
                  </td>
                  <td>
                    {isEverything(key) ? 'everything that the role allows' : key.scopes.join(', ')}
                    {key.restrict_to !== null && <RestrictionInWords of={key.restrict_to} />}
                  </td>
                  <td className="quiet">{nameOf(key.created_by)}</td>
                  <td className="quiet">
                    <Time at={key.last_used_at} />
                  </td>
                  <td>{status === 'active' && <Changes of={key} onRotated={setCreated} />}</td>
                </tr>
              );
            })}
          </Table>
          {data.next_cursor !== null && <p className="quiet">Only the newest 200 keys are shown.</p>}
        </section>
      )}
    </>
  );
}

/** Reads the names only if there is a restricted key. */
const RestrictionInWords = ({ of }: { of: Restriction }) => (
  <p className="quiet small what">{restrictionText(of, usePlaceNames())}</p>
);

const isEverything = ({ scopes }: Key): boolean => scopes.length === 1 && scopes[0] === ALL_SCOPES;

const tones = { active: 'good', expired: 'quiet', revoked: 'bad' } as const;

const statusOf = ({ revoked_at, expires_at }: Key, now: number): keyof typeof tones =>
  revoked_at !== null ? 'revoked' : expires_at !== null && Date.parse(expires_at) <= now ? 'expired' : 'active';

const Changes = ({ of: { prefix, name }, onRotated }: { of: Key; onRotated(key: CreatedKey): void }) => (
  <div className="row-actions">
    <ConfirmButton
      label="Rotate"
      about={name}
      title={`Rotate ${name}?`}
      confirmLabel="Rotate key"
      tone="primary"
      change={{ method: 'POST', path: `${KEYS}/rotate`, body: { prefix } }}
      stalePaths={[KEYS]}
      onSuccess={(answer) => onRotated(answer as CreatedKey)}
    >
      <p>
        A new key with the same name, scopes, restriction and expiry replaces it. The old key stops working immediately.
      </p>
    </ConfirmButton>
    <ConfirmButton
      label="Revoke"
      about={name}
      title={`Revoke ${name}?`}
      confirmLabel="Revoke key"
      change={{ method: 'POST', path: `${KEYS}/revoke`, body: { prefix } }}
      stalePaths={[KEYS]}
    >
      <p>The key stops working immediately and its connections are closed. This cannot be undone.</p>
    </ConfirmButton>
  </div>
);
