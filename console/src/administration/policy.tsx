import { type FormEvent, useId, useState } from 'react';
import { type Confirmer, MAX_CONFIRM_TTL_S, MIN_CONFIRM_TTL_S } from '../../../src/domain/policy.ts';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import type { PendingChange } from '../changes/change-request.ts';
import { ConfirmChange } from '../changes/confirm-change.tsx';
import { ChangeError, LoadError, Loading, Note } from '../ui/feedback.tsx';
import './administration.css';

const POLICY = '/v1/tenant/policy';

const confirmerOptions: readonly { by: Confirmer; title: string; about: string }[] = [
  {
    by: 'requester',
    title: 'Anyone with the required role',
    about: 'Including the requester and API keys. The confirmation is a second look, not a second person.',
  },
  {
    by: 'another_principal',
    title: 'Anyone other than the requester',
    about: 'All tokens and API keys of a user count as that user.',
  },
  {
    by: 'person',
    title: 'A person',
    about: 'A signed-in user; API keys and tokens of AI agents are not accepted.',
  },
];

/** Safety policy: who can confirm critical commands, and for how long. */
export function PolicyPage() {
  const { data, error, refetch } = useGet<ResponseBody<typeof getPolicy>>(POLICY);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Safety policy</h1>
          <p className="quiet">
            Rules for confirming critical commands and critical changes. Stricter rules also apply to what waits; looser
            ones do not.
          </p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading policy" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <Form policy={data.policy} />
      )}
    </>
  );
}

function Form({ policy }: { policy: ResponseBody<typeof getPolicy>['policy'] }) {
  const change = useChange([POLICY]);
  const [pending, setPending] = useState<PendingChange | null>(null);
  const [isApplied, setIsApplied] = useState(false);
  const ttlId = useId();
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    setIsApplied(false);
    change.mutate(
      {
        method: 'PATCH',
        path: POLICY,
        body: {
          confirm_by: given.get('confirm_by'),
          agent_confirm_by: given.get('agent_confirm_by'),
          confirm_ttl_s: Number(given.get('confirm_ttl_s')),
        },
      },
      {
        onSuccess: () => setIsApplied(true),
        onError(problem) {
          if (problem.code === 'DRY_RUN_REQUIRED') setPending(problem.body as PendingChange);
        },
      },
    );
  };
  return (
    <form className="card narrow-card" onSubmit={send}>
      <ConfirmerChoice name="confirm_by" legend="Confirmed by" value={policy.confirm_by} />
      <ConfirmerChoice
        name="agent_confirm_by"
        legend="Commands and changes of AI agents also confirmed by"
        value={policy.agent_confirm_by}
      />
      <label htmlFor={ttlId}>Confirmation deadline (seconds)</label>
      <input
        id={ttlId}
        name="confirm_ttl_s"
        type="number"
        className="short"
        required
        min={MIN_CONFIRM_TTL_S}
        max={MAX_CONFIRM_TTL_S}
        defaultValue={policy.confirm_ttl_s}
        aria-describedby={`${ttlId}-help`}
      />
      <p id={`${ttlId}-help`} className="quiet small">
        From {MIN_CONFIRM_TTL_S} to {MAX_CONFIRM_TTL_S.toLocaleString()}. A shorter deadline also applies to pending
        confirmations. A looser policy has to be confirmed and does not apply to them.
      </p>
      {change.error?.code !== 'DRY_RUN_REQUIRED' && <ChangeError error={change.error} />}
      {isApplied && <Note tone="good">Saved.</Note>}
      {pending !== null && (
        <ConfirmChange
          title="Make the policy looser?"
          pending={pending}
          stalePaths={[POLICY]}
          onClose={() => setPending(null)}
          onApplied={() => {
            setPending(null);
            setIsApplied(true);
          }}
        />
      )}
      <div className="actions">
        <button type="submit" className="button primary" disabled={change.isPending}>
          Save
        </button>
      </div>
    </form>
  );
}

function ConfirmerChoice({ name, legend, value }: { name: string; legend: string; value: Confirmer }) {
  const aboutId = useId();
  return (
    <fieldset className="options">
      <legend>{legend}</legend>
      {confirmerOptions.map(({ by, title, about }) => (
        <div key={by} className="option">
          <label>
            <input
              type="radio"
              name={name}
              value={by}
              defaultChecked={by === value}
              aria-describedby={`${aboutId}-${by}`}
            />
            {title}
          </label>
          <p id={`${aboutId}-${by}`} className="quiet small">
            {about}
          </p>
        </div>
      ))}
    </fieldset>
  );
}
