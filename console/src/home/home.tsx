import { useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import type { Overview } from '../api/answer-types.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { useStream } from '../live/use-stream.ts';
import { TenantChoice, useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Attention } from './attention.tsx';
import { CommandsFigure, DevicesFigure, RateFigures } from './figures.tsx';
import './home.css';

const EVERY_MS = 10_000;
/** However much happens, it is not asked more often what came of it. */
const REFRESH_DELAY_MS = 1_500;

/** What happens now, and what needs somebody. */
export function Home() {
  const { me, may } = useSession();
  const tenant = useChosenTenant();
  const known = me.has_tenant || tenant !== null;
  const overview = useGet<Overview>(withTenant('/v1/overview', tenant), {
    refetchIntervalMs: EVERY_MS,
    enabled: known,
  });
  useLiveRefresh(may('user') && tenant === null);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{(tenant === null ? me.user.tenant_slug : null) ?? 'Twinkeep'}</h1>
          <p className="quiet">What happens now, and what needs you.</p>
        </div>
        <TenantChoice />
      </header>
      {overview.data === undefined ? (
        overview.error === null ? (
          known && <Loading what="Counting" />
        ) : (
          <LoadError problem={overview.error} retry={overview.refetch} />
        )
      ) : (
        <div className="home-grid">
          <section className="card attention-card" aria-labelledby="attention">
            <header>
              <h2 id="attention">Needs attention</h2>
            </header>
            <Attention overview={overview.data} tenant={tenant} />
          </section>
          <DevicesFigure devices={overview.data.devices} />
          <CommandsFigure commands={overview.data.commands} />
        </div>
      )}
      <h2 className="home-part">The whole service</h2>
      <div className="home-grid">
        <RateFigures />
      </div>
    </>
  );
}

/** Asks anew a moment after something happened, and once while much does. */
function useLiveRefresh(when: boolean): void {
  const queries = useQueryClient();
  const waiting = useRef(false);
  const soon = (): void => {
    if (waiting.current) return;
    waiting.current = true;
    setTimeout(() => {
      waiting.current = false;
      void invalidatePaths(queries, ['/v1/overview', '/v1/confirmations', '/v1/actors?quarantined']);
    }, REFRESH_DELAY_MS);
  };
  useStream({
    path: '/ws/state',
    query: { events: 'presence,command,confirmation,plan' },
    onMessage: soon,
    onOpen: soon,
    enabled: when,
  });
}
