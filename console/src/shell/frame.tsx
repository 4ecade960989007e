import { type ComponentType, lazy, type ReactNode, Suspense, useEffect, useRef, useState } from 'react';
import { Link, Redirect, Route, Switch, useLocation, useSearch } from 'wouter';
import { SERVICE_PATH } from '../base.ts';
import { useWaitingConfirmations, WaitingBadge } from '../confirmations/waiting-badge.tsx';
import { type PageEntry, pageEntries } from '../page-entries.ts';
import { useSession } from '../session.tsx';
import { Empty, Loading, Note } from '../ui/feedback.tsx';
import { Icon, Mark } from '../ui/icons.tsx';
import { ConnectionBanner, ConnectionStatus } from './connection-status.tsx';
import { ErrorBoundary } from './error-boundary.tsx';
import type { PaletteAction } from './palette.tsx';
import { ShortcutHelp } from './shortcut-help.tsx';
import { useShortcuts } from './shortcuts.ts';
import { SuspensionBanner } from './suspension-banner.tsx';
import { ThemeSwitch } from './theme.tsx';
import './frame.css';
import './palette.css';

type Body = ComponentType<{ params: Readonly<Record<string, string>> }>;
const bodies = new Map<PageEntry, Body>(
  pageEntries.map((page) => [page, lazy(async () => ({ default: await page.load() }))]),
);

const Palette = lazy(() => import('./palette.tsx').then(({ CommandPalette }) => ({ default: CommandPalette })));
const AddDevice = lazy(() =>
  import('../devices/add-device.tsx').then(({ AddDeviceDialog }) => ({ default: AddDeviceDialog })),
);

const groups = ['Operate', 'Govern', 'Platform'] as const;

/** Frame of all pages: menu, signed-in user and connection status. */
export function PageFrame() {
  const { me, may, platform, signOut, signOutProblem } = useSession();
  const [path] = useLocation();
  const isWall = new URLSearchParams(useSearch()).has('wall') && path.startsWith('/dashboards/');
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const waiting = useWaitingConfirmations();
  const [dialog, setDialog] = useState<'palette' | 'help' | 'device' | null>(null);
  const [, navigate] = useLocation();
  const shown = pageEntries.filter((page) =>
    page.platform ? platform : may(page.role) || (platform && page.anyTenant === true),
  );

  useShortcuts({
    openPalette: () => setDialog('palette'),
    openHelp: () => setDialog('help'),
    openPage: (page) => shown.some((one) => one.path === page) && navigate(page),
  });
  const closeDialog = (): void => setDialog(null);
  const actions: readonly PaletteAction[] = [
    ...(me.has_tenant && may('admin')
      ? [{ id: 'add', icon: 'device', title: 'Add a device', run: () => setDialog('device') } as const]
      : []),
    { id: 'help', icon: 'search', title: 'Show keyboard shortcuts', run: () => setDialog('help') },
    { id: 'out', icon: 'out', title: 'Sign out', run: () => void signOut() },
  ];

  // A new page starts at the top, with the focus on its content for screen readers.
  const previousPath = useRef(path);
  useEffect(() => {
    if (previousPath.current === path) return;
    previousPath.current = path;
    setOpen(false);
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [path]);

  return (
    <div className={isWall ? 'frame wall' : open ? 'frame menu-open' : 'frame'}>
      <a className="skip" href="#content">
        Skip to content
      </a>
      <header className="side">
        <div className="brand">
          <Mark />
          <span>Twinkeep</span>
          <button
            type="button"
            className="icon-button menu-button"
            aria-expanded={open}
            aria-controls="menu"
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? 'close' : 'menu'} />
            <span className="unseen">Menu</span>
            {!open && <WaitingBadge of={waiting} />}
          </button>
        </div>
        <button type="button" className="icon-button palette-button" onClick={() => setDialog('palette')}>
          <Icon name="search" />
          Search
          <span className="key-hint small" aria-hidden="true">
            Ctrl K
          </span>
        </button>
        <nav id="menu" aria-label="Pages">
          {groups.map((group) => {
            const entries = shown.filter((page) => page.group === group);
            return entries.length === 0 ? null : (
              <Menu key={group} title={group}>
                {entries.map((page) => (
                  <Entry key={page.path} page={page} current={isCurrent(page, path)}>
                    {page.path === '/confirmations' && <WaitingBadge of={waiting} />}
                  </Entry>
                ))}
              </Menu>
            );
          })}
        </nav>
        <div className="side-foot">
          <ConnectionStatus />
          <p className="who">
            <strong>{me.user.email ?? me.user.ext_id}</strong>
            <span className="quiet">
              {me.user.tenant_slug ?? 'no tenant'} · {platform ? 'platform operator' : me.user.role}
            </span>
          </p>
          <p className="side-links">
            <a href={`${SERVICE_PATH}/docs`}>API</a>
            <a href={`${SERVICE_PATH}/graphql`}>GraphQL</a>
          </p>
          <div className="side-actions">
            <ThemeSwitch />
            <button
              type="button"
              className="icon-button"
              onClick={() => setDialog('help')}
              title="Keyboard shortcuts (?)"
            >
              <span aria-hidden="true">?</span>
              <span className="unseen">Keyboard shortcuts</span>
            </button>
            <button type="button" className="icon-button" onClick={() => void signOut()}>
              <Icon name="out" />
              <span>Sign out</span>
            </button>
          </div>
        </div>
      </header>
      <main id="content" ref={main} tabIndex={-1}>
        <SuspensionBanner />
        {/* The wall view has its own. */}
        {!isWall && <ConnectionBanner />}
        {signOutProblem !== null && <Note tone="bad">Signing out failed: {signOutProblem.message}</Note>}
        <ErrorBoundary key={path}>
          <Suspense fallback={<Loading what="Loading" />}>
            <Switch>
              {shown.map((page) => (
                <Route key={page.path} path={page.path} component={bodies.get(page) as Body} />
              ))}
              {/* Platform operators without a tenant cannot open Home: they start at their first page. */}
              <Route path="/">{shown[0] !== undefined && <Redirect to={shown[0].path} replace />}</Route>
              <Route>
                <Empty isWholePage icon="search" title="This page does not exist, or your role cannot open it.">
                  <Link href="/">Go to the start page</Link>
                </Empty>
              </Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
      {dialog === 'help' && <ShortcutHelp pages={shown} onClose={closeDialog} />}
      <Suspense fallback={null}>
        {dialog === 'palette' && <Palette pages={shown} actions={actions} onClose={closeDialog} />}
        {dialog === 'device' && <AddDevice onClose={closeDialog} />}
      </Suspense>
    </div>
  );
}

const isCurrent = ({ path }: PageEntry, at: string): boolean =>
  path === '/' ? at === '/' : at === path || at.startsWith(`${path}/`);

const Menu = ({ title, children }: { title: string; children: ReactNode }) => (
  <section aria-label={title}>
    <h2>{title}</h2>
    <ul>{children}</ul>
  </section>
);

interface EntryProps {
  page: PageEntry;
  current: boolean;
  children: ReactNode;
}

const Entry = ({ page: { path, label, icon }, current, children }: EntryProps) => (
  <li>
    <Link href={path} {...(current && { 'aria-current': 'page' as const })}>
      {icon !== undefined && <Icon name={icon} />}
      {label}
      {children}
    </Link>
  </li>
);
