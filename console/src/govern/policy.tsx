import { type FormEvent, useId } from 'react';
import { type confirmers, MAX_CONFIRM_TTL_S, MIN_CONFIRM_TTL_S } from '../../../src/domain/policy.ts';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { Answer } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { ChangeError, LoadError, Loading, Note } from '../ui/feedback.tsx';
import './govern.css';

const POLICY = '/v1/tenant/policy';

const confirmerOptions: readonly { by: (typeof confirmers)[number]; title: string; about: string }[] = [
  {
    by: 'requester',
    title: 'Anybody with the role, also who asked',
    about: 'A key may do it, too. Confirming is then a second look, not a second person.',
  },
  {
    by: 'another_principal',
    title: 'Somebody other than who asked',
    about: 'All tokens and keys of one person are that person.',
  },
  {
    by: 'person',
    title: 'A person',
    about: 'Somebody who signed in, never a key and never what an AI agent presents.',
  },
];

/** Who may confirm critical commands, and for how long. */
export function Policy() {
  const { data, error, refetch } = useGet<Answer<typeof getPolicy>>(POLICY);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Safety policy</h1>
          <p className="quiet">Who may confirm critical commands. A change counts for what waits already, too.</p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading the policy" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <Form policy={data.policy} />
      )}
    </>
  );
}

function Form({ policy }: { policy: Answer<typeof getPolicy>['policy'] }) {
  const change = useChange([POLICY]);
  const ttlId = useId();
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    change.mutate({
      method: 'PATCH',
      path: POLICY,
      body: { confirm_by: given.get('confirm_by'), confirm_ttl_s: Number(given.get('confirm_ttl_s')) },
    });
  };
  return (
    <form className="card narrow-card" onSubmit={send}>
      <fieldset className="options">
        <legend>Who confirms</legend>
        {confirmerOptions.map(({ by, title, about }) => (
          <div key={by} className="option">
            <label>
              <input
                type="radio"
                name="confirm_by"
                value={by}
                defaultChecked={by === policy.confirm_by}
                aria-describedby={`about-${by}`}
              />
              {title}
            </label>
            <p id={`about-${by}`} className="quiet small">
              {about}
            </p>
          </div>
        ))}
      </fieldset>
      <label htmlFor={ttlId}>Within how many seconds</label>
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
        From {MIN_CONFIRM_TTL_S} to {MAX_CONFIRM_TTL_S.toLocaleString()}; what waits already keeps its deadline.
      </p>
      <ChangeError error={change.error} />
      {change.isSuccess && <Note tone="good">Kept.</Note>}
      <div className="actions">
        <button type="submit" className="button primary" disabled={change.isPending}>
          Keep it so
        </button>
      </div>
    </form>
  );
}
