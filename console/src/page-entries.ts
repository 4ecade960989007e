import type { ComponentType } from 'react';
import type { Role } from '../../src/domain/roles.ts';
import type { IconName } from './ui/icons.tsx';

/** A page of the console. Its code is loaded on the first visit. */
export interface PageEntry {
  /** Path in the console, with wouter's `:parameters`, which are passed to the component. */
  path: string;
  /** Menu label; a page without a label is reached by links. */
  label?: string;
  icon?: IconName;
  group?: 'Operate' | 'Govern' | 'Platform';
  /** Lowest role that can open the page. */
  role: Role;
  /** Only for platform operators. */
  platform?: true;
  /** Platform operators can open it for any tenant, regardless of their role in their own. */
  anyTenant?: true;
  load(): Promise<ComponentType<{ params: Readonly<Record<string, string>> }>>;
}

/** In menu order. */
export const pageEntries: readonly PageEntry[] = [
  {
    ...{ path: '/', label: 'Home', icon: 'home', group: 'Operate', role: 'viewer', anyTenant: true },
    load: () => import('./home/home.tsx').then(({ HomePage }) => HomePage),
  },
  {
    ...{ path: '/dashboards', label: 'Dashboards', icon: 'dashboard', group: 'Operate', role: 'viewer' },
    load: () => import('./dashboards/list.tsx').then(({ DashboardsPage }) => DashboardsPage),
  },
  {
    ...{ path: '/dashboards/:id', role: 'viewer' },
    load: () => import('./dashboards/page.tsx').then(({ DashboardPage }) => DashboardPage),
  },
  {
    ...{ path: '/dashboards/home/:home', role: 'viewer' },
    load: () => import('./dashboards/home-dashboard.tsx').then(({ HomeDashboardPage }) => HomeDashboardPage),
  },
  {
    ...{ path: '/actors', label: 'Actors', icon: 'actors', group: 'Operate', role: 'admin', anyTenant: true },
    load: () => import('./actors/list.tsx').then(({ ActorsPage }) => ActorsPage),
  },
  {
    ...{ path: '/actors/:kind/:id', role: 'admin', anyTenant: true },
    load: () => import('./actors/actor.tsx').then(({ ActorPage }) => ActorPage),
  },
  {
    ...{ path: '/devices', label: 'Devices', icon: 'device', group: 'Operate', role: 'user' },
    load: () => import('./devices/list.tsx').then(({ DevicesPage }) => DevicesPage),
  },
  {
    ...{ path: '/devices/:id', role: 'user' },
    load: () => import('./devices/page.tsx').then(({ DevicePage }) => DevicePage),
  },
  {
    ...{ path: '/devices/:id/history', role: 'user' },
    load: () => import('./charts/page.tsx').then(({ HistoryPage }) => HistoryPage),
  },
  {
    ...{ path: '/devices/:id/manifest', role: 'admin' },
    load: () => import('./devices/manifest-editor.tsx').then(({ ManifestEditorPage }) => ManifestEditorPage),
  },
  {
    ...{ path: '/homes', label: 'Homes', icon: 'place', group: 'Operate', role: 'viewer' },
    load: () => import('./homes/list.tsx').then(({ HomesPage }) => HomesPage),
  },
  {
    ...{ path: '/homes/:id', role: 'viewer' },
    load: () => import('./homes/page.tsx').then(({ HomeDetailsPage }) => HomeDetailsPage),
  },
  {
    ...{ path: '/homes/:id/rooms/:room', role: 'viewer' },
    load: () => import('./homes/room.tsx').then(({ RoomPage }) => RoomPage),
  },
  {
    ...{ path: '/groups', label: 'Groups', icon: 'group', group: 'Operate', role: 'user' },
    load: () => import('./groups/list.tsx').then(({ GroupsPage }) => GroupsPage),
  },
  {
    ...{ path: '/groups/:slug', role: 'user' },
    load: () => import('./groups/page.tsx').then(({ GroupPage }) => GroupPage),
  },
  {
    ...{ path: '/plans', label: 'Plans', icon: 'plan', group: 'Operate', role: 'viewer' },
    load: () => import('./plans/list.tsx').then(({ PlansPage }) => PlansPage),
  },
  {
    // Before the page of one plan, which has a parameter here.
    ...{ path: '/plans/new', role: 'user' },
    load: () => import('./plans/new-plan.tsx').then(({ NewPlanPage }) => NewPlanPage),
  },
  {
    ...{ path: '/plans/:id', role: 'viewer' },
    load: () => import('./plans/page.tsx').then(({ PlanPage }) => PlanPage),
  },
  {
    ...{ path: '/confirmations', label: 'Confirmations', icon: 'confirm', group: 'Operate', role: 'user' },
    load: () => import('./confirmations/inbox.tsx').then(({ ConfirmationsPage }) => ConfirmationsPage),
  },
  {
    ...{ path: '/memories', label: 'Memories', icon: 'memory', group: 'Operate', role: 'viewer' },
    load: () => import('./memories/page.tsx').then(({ MemoriesPage }) => MemoriesPage),
  },
  {
    ...{ path: '/commands', label: 'Commands', icon: 'command', group: 'Operate', role: 'user' },
    load: () => import('./commands/list.tsx').then(({ CommandsPage }) => CommandsPage),
  },
  {
    ...{ path: '/commands/:id', role: 'user' },
    load: () => import('./commands/page.tsx').then(({ CommandPage }) => CommandPage),
  },
  {
    ...{ path: '/audit', label: 'Audit', icon: 'audit', group: 'Govern', role: 'admin' },
    load: () => import('./administration/audit.tsx').then(({ AuditPage }) => AuditPage),
  },
  {
    ...{ path: '/keys', label: 'API keys', icon: 'key', group: 'Govern', role: 'viewer' },
    load: () => import('./administration/keys.tsx').then(({ ApiKeysPage }) => ApiKeysPage),
  },
  {
    ...{ path: '/sessions', label: 'Sessions', icon: 'session', group: 'Govern', role: 'viewer' },
    load: () => import('./administration/sessions.tsx').then(({ SessionsPage }) => SessionsPage),
  },
  {
    ...{ path: '/members', label: 'Members', icon: 'people', group: 'Govern', role: 'admin' },
    load: () => import('./administration/members.tsx').then(({ MembersPage }) => MembersPage),
  },
  {
    ...{ path: '/firmware', label: 'Firmware', icon: 'firmware', group: 'Govern', role: 'viewer' },
    load: () => import('./administration/firmware.tsx').then(({ FirmwarePage }) => FirmwarePage),
  },
  {
    ...{ path: '/cas', label: 'Device CAs', icon: 'certificate', group: 'Govern', role: 'admin' },
    load: () => import('./administration/device-cas.tsx').then(({ DeviceCasPage }) => DeviceCasPage),
  },
  {
    ...{ path: '/policy', label: 'Policy', icon: 'policy', group: 'Govern', role: 'admin' },
    load: () => import('./administration/policy.tsx').then(({ PolicyPage }) => PolicyPage),
  },
  {
    ...{ path: '/platform/tenants', label: 'Tenants', icon: 'tenant', group: 'Platform', role: 'none', platform: true },
    load: () => import('./platform/tenants.tsx').then(({ TenantsPage }) => TenantsPage),
  },
  {
    ...{ path: '/platform/flags', label: 'Flags', icon: 'flag', group: 'Platform', role: 'none', platform: true },
    load: () => import('./platform/flags.tsx').then(({ FlagsPage }) => FlagsPage),
  },
  {
    ...{ path: '/platform/nodes', label: 'Nodes', icon: 'node', group: 'Platform', role: 'none', platform: true },
    load: () => import('./platform/nodes.tsx').then(({ NodesPage }) => NodesPage),
  },
  {
    ...{
      path: '/platform/audit',
      label: 'Service audit',
      icon: 'audit',
      group: 'Platform',
      role: 'none',
      platform: true,
    },
    load: () => import('./administration/audit.tsx').then(({ PlatformAuditPage }) => PlatformAuditPage),
  },
];
