import { useState } from 'react';
import type { listApiKeys } from '../../../src/operations/identity/api-keys.ts';
import type { Answer } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useUserNames } from '../people/user-names.ts';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import type { CreatedKey } from './created-key.ts';
import { NewKey } from './new-key.tsx';
import './govern.css';

type Key = Answer<typeof listApiKeys>['keys'][number];

const KEYS = '/v1/auth/api-keys';

/** Keys for programs: one's own, and as an admin everybody's. */
export function ApiKeys() {
  const { may } = useSession();
  const { data, error, refetch } = useGet<Answer<typeof listApiKeys>>(`${KEYS}?limit=200`);
  const [made, setMade] = useState<CreatedKey | null>(null);
  const nameOf = useUserNames();
  const now = useNow();
  return (
    <>
      <header className="page-head">
        <div>
          <h1>API keys</h1>
          <p className="quiet">
            Programs sign in with a key. It acts as its maker, within its scopes
            {may('admin') ? '; here are everybody’s.' : '.'}
          </p>
        </div>
        <NewKey made={setMade} />
      </header>
      {made !== null && <Secret of={made} close={() => setMade(null)} />}
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading the keys" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.keys.length === 0 ? (
        <Empty icon="key" title="No keys yet.">
          Make one for each program, with no more scopes than it needs.
        </Empty>
      ) : (
        <section className="card" aria-label="Keys">
          <Table label="API keys" columns={['Key', 'Status', 'Scopes', 'Of', 'Last used', 'Change']}>
            {data.keys.map((key) => {
              const status = statusOf(key, now);
              return (
                <tr key={key.prefix}>
                  <th scope="row">
                    {key.name} <span className="mono quiet small">tk_{key.prefix}_…</span>
                  </th>
                  <td>
                    <Pill tone={tones[status]}>{status}</Pill>
                    {key.expires_at !== null && status === 'active' && (
                      <p className="quiet small what">
                        until <Time at={key.expires_at} />
                      </p>
                    )}
                  </td>
                  <td>{key.scopes.join(', ') || 'all of its role'}</td>
                  <td className="quiet">{nameOf(key.created_by)}</td>
                  <td className="quiet">
                    <Time at={key.last_used_at} />
                  </td>
                  <td>{status === 'active' && <Changes of={key} made={setMade} />}</td>
                </tr>
              );
            })}
          </Table>
          {data.next_cursor !== null && <p className="quiet">The newest 200 keys.</p>}
        </section>
      )}
    </>
  );
}

const tones = { active: 'good', expired: 'quiet', revoked: 'bad' } as const;

const statusOf = ({ revoked_at, expires_at }: Key, now: number): keyof typeof tones =>
  revoked_at !== null ? 'revoked' : expires_at !== null && Date.parse(expires_at) <= now ? 'expired' : 'active';

const Changes = ({ of: { prefix, name }, made }: { of: Key; made(key: CreatedKey): void }) => (
  <div className="row-actions">
    <ConfirmButton
      label="Rotate"
      about={name}
      title={`Rotate ${name}?`}
      confirmLabel="Rotate it"
      tone="primary"
      change={{ method: 'POST', path: `${KEYS}/rotate`, body: { prefix } }}
      stalePaths={[KEYS]}
      onSuccess={(answer) => made(answer as CreatedKey)}
    >
      <p>A new key takes its place, with the same name, scopes and end. The old one is dead at once.</p>
    </ConfirmButton>
    <ConfirmButton
      label="Revoke"
      about={name}
      title={`Revoke ${name}?`}
      confirmLabel="Revoke it"
      change={{ method: 'POST', path: `${KEYS}/revoke`, body: { prefix } }}
      stalePaths={[KEYS]}
    >
      <p>It is dead at once, with every connection that lives on it. It cannot come back.</p>
    </ConfirmButton>
  </div>
);

function Secret({ of: { key, name }, close }: { of: CreatedKey; close(): void }) {
  const [copied, setCopied] = useState(false);
  return (
    <Dialog title={`The key ${name}`} onClose={close}>
      <p>Put it where its program reads it: it is shown this once.</p>
      <code className="secret">{key}</code>
      <p role="status" className="quiet small">
        {copied ? 'Copied.' : ''}
      </p>
      <div className="actions">
        {'clipboard' in navigator && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(key).then(() => setCopied(true))}
          >
            Copy it
          </button>
        )}
        <button type="button" className="button primary" onClick={close}>
          I have it
        </button>
      </div>
    </Dialog>
  );
}
