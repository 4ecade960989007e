import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Link } from 'wouter';
import { ME_PATH } from '../api/client.ts';
import { invalidatePaths } from '../api/queries.ts';
import { useConnectionState } from '../live/use-stream.ts';
import { useSession } from '../session.tsx';
import { Note } from '../ui/feedback.tsx';

/** Banner above every page while the user's tenant is suspended. */
export function SuspensionBanner() {
  const { me, platform } = useSession();
  const queries = useQueryClient();
  const status = useConnectionState()?.status;
  // A suspension closes the streams, before the session is read again periodically.
  useEffect(() => {
    if (status === 'refused') void invalidatePaths(queries, [ME_PATH]);
  }, [status, queries]);
  if (me.tenant_suspended !== true) return null;
  return (
    <Note tone="bad">
      <p>
        <strong>{me.user.tenant_slug ?? 'Your tenant'} is suspended.</strong> Its data cannot be read or changed, and
        its devices cannot connect. Stored data is kept; what devices send until then is refused.
      </p>
      {me.suspension_notice !== undefined && <p>Notice of the operator: “{me.suspension_notice}”</p>}
      <p>
        {platform ? (
          <>
            You can resume it on the page <Link href="/platform/tenants">Tenants</Link>.
          </>
        ) : (
          `Only an operator of the service can resume it.${me.suspension_notice === undefined ? ' Contact the operator for the reason.' : ''}`
        )}
      </p>
    </Note>
  );
}
