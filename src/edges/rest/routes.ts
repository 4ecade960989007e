import type { RouteGroup } from './openapi.ts';
import type { Route } from './route.ts';
import { actorRoutes } from './routes/actors.ts';
import { administrationRoutes } from './routes/administration.ts';
import { cognitionRoutes } from './routes/cognition.ts';
import { commandRoutes } from './routes/commands.ts';
import { dashboardRoutes } from './routes/dashboards.ts';
import { deviceCaRoutes } from './routes/device-cas.ts';
import { deviceRoutes } from './routes/devices.ts';
import { firmwareRoutes } from './routes/firmware.ts';
import { groupRoutes } from './routes/groups.ts';
import { homeRoutes } from './routes/homes.ts';
import { identityRoutes } from './routes/identity.ts';
import { manifestRoutes } from './routes/manifests.ts';
import { memoryRoutes } from './routes/memories.ts';
import { planRoutes } from './routes/plans.ts';
import { safetyRoutes } from './routes/safety.ts';
import { systemRoutes } from './routes/system.ts';

/** In the order of the specification's endpoint tables. */
export const routeGroups: readonly RouteGroup[] = [
  { title: 'Identity and tenants', about: 'Users, tenants, members, sessions and API keys', routes: identityRoutes },
  { title: 'System', about: 'Health, version and status of the service; no authentication', routes: systemRoutes },
  { title: 'Devices', about: 'Registration, keys and records of devices', routes: deviceRoutes },
  {
    title: 'Device certificates',
    about: 'Certificate authorities of a tenant, and the certificates with which its devices sign in',
    routes: deviceCaRoutes,
  },
  {
    title: 'Commands',
    about: 'Commands to devices through the safety gateway, and their outcome',
    routes: commandRoutes,
  },
  {
    title: 'Safety',
    about: 'The confirmation policy, and pending confirmations of commands and of other changes',
    routes: safetyRoutes,
  },
  { title: 'Homes and rooms', about: 'Locations of devices', routes: homeRoutes },
  { title: 'Manifests', about: 'Capabilities of devices', routes: manifestRoutes },
  {
    title: 'Intents and cognition',
    about: 'Goals in terms of the home, and the plans and proposals of the sidecar',
    routes: cognitionRoutes,
  },
  { title: 'Memory', about: 'Observations, preferences and routines that agents store', routes: memoryRoutes },
  {
    title: 'Plans',
    about: 'Commands with dependencies that run as one, with rollback if a step fails',
    routes: planRoutes,
  },
  { title: 'Firmware', about: 'Firmware releases and their artifacts', routes: firmwareRoutes },
  { title: 'Groups', about: 'Sets of devices that receive commands together', routes: groupRoutes },
  {
    title: 'Dashboards',
    about: 'Pages of tiles that a person composes, shared in the tenant',
    routes: dashboardRoutes,
  },
  { title: 'Actors and audit', about: 'Running statecharts, their journals, and the audit log', routes: actorRoutes },
  { title: 'Administration', about: 'For platform operators: tenants and system flags', routes: administrationRoutes },
];

/** Every REST route, for the router and the API reference. */
export const routes: readonly Route[] = routeGroups.flatMap((group) => group.routes);
