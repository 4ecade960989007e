import { useId } from 'react';
import type { getTenant } from '../../../src/operations/identity/tenants.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { CONSOLE_PATH } from '../base.ts';
import { CopyActions } from '../ui/copy-actions.tsx';
import { Dialog } from '../ui/dialog.tsx';

interface InvitationLinkProps {
  email: string;
  onClose(): void;
}

/**
 * A link for a person who was invited, and how they accept. The service sends no email; the link is the address of the console,
 * which shows the invitation to a user with that verified email address.
 */
export function InvitationLink({ email, onClose: close }: InvitationLinkProps) {
  const id = useId();
  const tenant = useGet<ResponseBody<typeof getTenant>>('/v1/tenant').data?.tenant.name;
  const link = `${location.origin}${CONSOLE_PATH}/`;
  return (
    <Dialog title={`Invitation of ${email}`} onClose={close}>
      <p>Send this link to {email}. The service sends no email.</p>
      <label htmlFor={id}>Link</label>
      <input id={id} readOnly value={link} onFocus={({ target }) => target.select()} />
      <p>How the invitation is accepted, within 14 days:</p>
      <ol>
        <li>Open the link and sign in with the email address {email}, which must be verified.</li>
        <li>Choose “Join {tenant ?? '…'}”. A member of another tenant has to leave that one first.</li>
      </ol>
      <p className="quiet small">The link is not secret: it works only for that email address.</p>
      <CopyActions text={link} label="Copy link" onDone={close} />
    </Dialog>
  );
}
