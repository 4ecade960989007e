import { type FormEvent, useId, useRef } from 'react';
import type { Me } from '../api/answer-types.ts';
import { useChange } from '../api/queries.ts';
import { ChangeError } from '../ui/feedback.tsx';
import { Mark } from '../ui/icons.tsx';
import './sign-in.css';

/** Page for users without a tenant: accept an invitation or create a tenant. */
export function Welcome({ me, onJoined }: { me: Me; onJoined(): Promise<void> }) {
  const name = useRef<HTMLInputElement>(null);
  const nameId = useId();
  const change = useChange();
  const submitChange = (path: string, body: object): void =>
    change.mutate({ method: 'POST', path, body }, { onSuccess: () => void onJoined() });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    submitChange('/v1/tenant/register', { tenant_name: name.current?.value ?? '' });
  };
  return (
    <main className="sign-in">
      <div className="sign-in-panel">
        <Mark />
        <h1>Welcome</h1>
        <p className="quiet">
          You are signed in as {me.user.email ?? me.user.ext_id} and are not a member of a tenant yet.
        </p>
        <ChangeError error={change.error} />
        {me.invitations.map(({ id, tenant_name, role }) => (
          <button
            key={id}
            type="button"
            className="button primary wide"
            disabled={change.isPending}
            onClick={() => submitChange(`/v1/auth/invitations/${id}/accept`, {})}
          >
            Join {tenant_name} as {role}
          </button>
        ))}
        <form onSubmit={submit}>
          <label htmlFor={nameId}>
            {me.invitations.length > 0 ? 'Or name of a new tenant' : 'Name of the new tenant'}
          </label>
          <input id={nameId} ref={name} required maxLength={100} autoComplete="organization" />
          <button
            type="submit"
            className={me.invitations.length > 0 ? 'button wide' : 'button primary wide'}
            disabled={change.isPending}
          >
            Create tenant
          </button>
        </form>
      </div>
    </main>
  );
}
