import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import type { getTenant } from '../../../src/operations/identity/tenants.ts';
import type { OverviewRecord, ResponseBody } from '../api/answer-types.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { DashboardLinks } from '../dashboards/list.tsx';
import { AddDeviceButton, AddDeviceDialog } from '../devices/add-device.tsx';
import { useStream } from '../live/use-stream.ts';
import { TenantChoice, useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Attention } from './attention.tsx';
import { DeviceTiles, TILES_KEY } from './device-tiles.tsx';
import { CommandsFigure, DevicesFigure, RateFigures } from './figures.tsx';
import { FAILURES_PATH, staleFailures } from './newest-failures.ts';
import './home.css';

const REFRESH_MS = 10_000;
/** Minimum time between refetches caused by stream messages. */
const REFRESH_DELAY_MS = 1_500;

/** Home page: open issues, devices and commands of the tenant, and rates of the service for platform operators. */
export function HomePage() {
  const { me, may, platform } = useSession();
  const tenant = useChosenTenant();
  const hasTenant = me.has_tenant || tenant !== null;
  const overview = useGet<OverviewRecord>(withTenant('/v1/overview', tenant), {
    refetchIntervalMs: REFRESH_MS,
    enabled: hasTenant,
  });
  const own = useGet<ResponseBody<typeof getTenant>>('/v1/tenant', { enabled: me.has_tenant && tenant === null });
  useLiveRefresh(may('user') && tenant === null);
  const [isAdding, setAdding] = useState(false);
  return (
    <>
      {isAdding && <AddDeviceDialog onClose={() => setAdding(false)} />}
      <header className="page-head">
        <div>
          <h1>{(tenant === null ? (own.data?.tenant.name ?? me.user.tenant_slug) : null) ?? 'Twinkeep'}</h1>
          <p className="quiet">Current activity and open issues.</p>
        </div>
        <TenantChoice />
      </header>
      {overview.data === undefined ? (
        overview.error === null ? (
          hasTenant && <Loading what="Loading" />
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
          <DevicesFigure devices={overview.data.devices}>
            {tenant === null && overview.data.devices.total === 0 && (
              <AddDeviceButton onClick={() => setAdding(true)} />
            )}
          </DevicesFigure>
          <CommandsFigure commands={overview.data.commands} />
        </div>
      )}
      {tenant === null && me.has_tenant && may('viewer') && <DashboardLinks />}
      {tenant === null && me.has_tenant && may('user') && <DeviceTiles />}
      {platform && (
        <>
          <h2 className="home-part">Entire service</h2>
          <div className="home-grid">
            <RateFigures />
          </div>
        </>
      )}
    </>
  );
}

/** Refetches shortly after stream messages, at most once per delay. */
function useLiveRefresh(enabled: boolean): void {
  const queries = useQueryClient();
  /** Paths of failed commands that the next refetch includes; null while none is scheduled. */
  const scheduled = useRef<Set<string> | null>(null);
  const refreshSoon = (failures: string | null): void => {
    if (scheduled.current === null) {
      scheduled.current = new Set();
      setTimeout(() => {
        const ofDevices = [TILES_KEY, ...(scheduled.current ?? [])];
        scheduled.current = null;
        void invalidatePaths(queries, ['/v1/overview', '/v1/confirmations', '/v1/actors?quarantined', ...ofDevices]);
      }, REFRESH_DELAY_MS);
    }
    if (failures !== null) scheduled.current.add(failures);
  };
  useStream({
    path: '/ws/state',
    query: { events: 'presence,command,confirmation,plan' },
    // Five devices, refetched for each message, would be half of the requests that a user's pages may send.
    onMessage: (message) => refreshSoon(staleFailures(message)),
    onOpen: () => refreshSoon(FAILURES_PATH),
    enabled,
  });
}
