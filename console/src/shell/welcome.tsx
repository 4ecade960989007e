import { type FormEvent, useId, useRef } from 'react';
import type { Me } from '../api/answer-types.ts';
import { useChange } from '../api/queries.ts';
import { ChangeError } from '../ui/feedback.tsx';
import { Mark } from '../ui/icons.tsx';
import './sign-in.css';

/** For who has no tenant yet: what they are invited to, or one of their own. */
export function Welcome({ me, entered }: { me: Me; entered(): Promise<void> }) {
  const name = useRef<HTMLInputElement>(null);
  const nameId = useId();
  const change = useChange();
  const act = (path: string, body: object): void =>
    change.mutate({ method: 'POST', path, body }, { onSuccess: () => void entered() });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    act('/v1/tenant/register', { tenant_name: name.current?.value ?? '' });
  };
  return (
    <main className="sign-in">
      <div className="sign-in-panel">
        <Mark />
        <h1>Welcome</h1>
        <p className="quiet">You are signed in as {me.user.email ?? me.user.ext_id}, and belong to no tenant yet.</p>
        <ChangeError error={change.error} />
        {me.invitations.map(({ id, tenant_name, role }) => (
          <button
            key={id}
            type="button"
            className="button primary wide"
            disabled={change.isPending}
            onClick={() => act(`/v1/auth/invitations/${id}/accept`, {})}
          >
            Join {tenant_name} as {role}
          </button>
        ))}
        <form onSubmit={submit}>
          <label htmlFor={nameId}>
            {me.invitations.length > 0 ? 'Or a tenant of your own' : 'Name of your tenant'}
          </label>
          <input id={nameId} ref={name} required maxLength={100} autoComplete="organization" />
          <button type="submit" className="button wide" disabled={change.isPending}>
            Create it
          </button>
        </form>
      </div>
    </main>
  );
}
