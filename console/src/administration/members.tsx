import { type FormEvent, useId, useState } from 'react';
import { type MemberRole, mayDecideOn, memberRoles } from '../../../src/domain/membership.ts';
import type { listMembers } from '../../../src/operations/identity/members.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { abbreviateId } from '../ui/text-format.ts';
import { InvitationLink } from './invitation-link.tsx';
import './administration.css';

type Member = ResponseBody<typeof listMembers>['members'][number];

const MEMBERS = '/v1/tenant/members';
const STALE = [MEMBERS, '/v1/auth/me'];

const permissions: Readonly<Record<MemberRole, string>> = {
  viewer: 'Can read homes, plans, manifests and firmware.',
  user: 'Can also view and control devices, run plans and answer confirmations.',
  admin:
    'Can also register devices, release firmware, view the audit log and actors, and manage members and the policy.',
  owner: 'Can also grant the owner role.',
};

/** Members of the tenant and open invitations. */
export function MembersPage() {
  const { data, error, refetch } = useGet<ResponseBody<typeof listMembers>>(`${MEMBERS}?limit=200`);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Members</h1>
          <p className="quiet">You cannot grant, change or remove a role above your own.</p>
        </div>
        <Invite />
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading members" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <section className="card" aria-label="People">
          <Table label="Members" columns={['Member', 'Role', 'Status', 'Actions']}>
            {data.members.map((member) => (
              <Row key={member.id} of={member} />
            ))}
          </Table>
          {data.next_cursor !== null && <p className="quiet">Only the newest 200 members are shown.</p>}
        </section>
      )}
    </>
  );
}

const nameOf = ({ email, id }: Member): string => email ?? abbreviateId(id);

function Row({ of: member }: { of: Member }) {
  const { me, role: mine } = useSession();
  const change = useChange(STALE);
  const self = member.id === me.user.id;
  const mayChange = !self && mayDecideOn(mine, member.role);
  const invited = member.status === 'invited';
  const [isLinkShown, setLinkShown] = useState(false);
  return (
    <tr>
      <th scope="row">
        {nameOf(member)} {self && <span className="quiet small">(you)</span>}
      </th>
      <td>
        {mayChange ? (
          <select
            aria-label={`Role of ${nameOf(member)}`}
            value={member.role}
            disabled={change.isPending}
            onChange={({ target }) =>
              change.mutate({ method: 'PATCH', path: `${MEMBERS}/${member.id}`, body: { role: target.value } })
            }
          >
            {memberRoles
              .filter((role) => mayDecideOn(mine, role))
              .map((role) => (
                <option key={role}>{role}</option>
              ))}
          </select>
        ) : (
          member.role
        )}
        <ChangeError error={change.error} />
      </td>
      <td>
        <Pill tone={invited ? 'warn' : 'good'}>{member.status}</Pill>
      </td>
      <td>
        <div className="row-actions">
          {invited && member.email !== null && (
            <button
              type="button"
              className="button"
              aria-label={`Link … ${member.email}`}
              onClick={() => setLinkShown(true)}
            >
              Link …
            </button>
          )}
          {isLinkShown && member.email !== null && (
            <InvitationLink email={member.email} onClose={() => setLinkShown(false)} />
          )}
          {mayChange && !invited && (
            <ConfirmButton
              label="Sign out"
              about={nameOf(member)}
              title={`Sign ${nameOf(member)} out everywhere?`}
              confirmLabel="Sign out everywhere"
              change={{ method: 'DELETE', path: `${MEMBERS}/${member.id}/sessions` }}
              stalePaths={STALE}
            >
              <p>
                All their sessions and tokens end immediately. They can sign in again, and their API keys stay valid.
              </p>
            </ConfirmButton>
          )}
          {(mayChange || self) && (
            <ConfirmButton
              label={self ? 'Leave' : invited ? 'Withdraw' : 'Remove'}
              about={nameOf(member)}
              title={self ? 'Leave this tenant?' : invited ? 'Withdraw the invitation?' : `Remove ${nameOf(member)}?`}
              confirmLabel={self ? 'Leave tenant' : invited ? 'Withdraw invitation' : 'Remove member'}
              change={{ method: 'DELETE', path: `${MEMBERS}/${member.id}` }}
              stalePaths={STALE}
            >
              <p>
                {invited
                  ? 'The invitation can no longer be accepted.'
                  : `${self ? 'You lose' : 'The member loses'} access immediately, and all of ${self ? 'your' : 'their'} keys stop working.`}
              </p>
            </ConfirmButton>
          )}
        </div>
      </td>
    </tr>
  );
}

function Invite() {
  const { role: mine } = useSession();
  const [open, setOpen] = useState(false);
  const [invited, setInvited] = useState<string | null>(null);
  const invite = useChange(STALE);
  const [emailId, roleId] = [useId(), useId()];
  const [role, setRole] = useState<MemberRole>('user');
  const close = (): void => {
    setOpen(false);
    invite.reset();
  };
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const email = `${new FormData(event.currentTarget).get('email')}`.trim();
    invite.mutate(
      { method: 'POST', path: MEMBERS, body: { email, role } },
      {
        onSuccess() {
          close();
          setInvited(email);
        },
      },
    );
  };
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>
        Invite member …
      </button>
      {invited !== null && <InvitationLink email={invited} onClose={() => setInvited(null)} />}
      {open && (
        <Dialog title="Invite member" onClose={close}>
          <p>You get a link to send to the person. The invitation is valid for 14 days.</p>
          <form onSubmit={send}>
            <label htmlFor={emailId}>Email</label>
            <input id={emailId} name="email" type="email" required maxLength={254} autoComplete="off" />
            <label htmlFor={roleId}>Role</label>
            <select
              id={roleId}
              value={role}
              aria-describedby={`${roleId}-about`}
              onChange={({ target }) => setRole(target.value as MemberRole)}
            >
              {memberRoles
                .filter((one) => mayDecideOn(mine, one))
                .map((one) => (
                  <option key={one}>{one}</option>
                ))}
            </select>
            <p id={`${roleId}-about`} className="quiet small">
              {permissions[role]}
            </p>
            <ChangeError error={invite.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Cancel
              </button>
              <button type="submit" className="button primary" disabled={invite.isPending}>
                Invite
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
