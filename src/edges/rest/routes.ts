import type { RouteGroup } from './openapi.ts';
import type { Route } from './route.ts';
import { actorRoutes } from './routes/actors.ts';
import { administrationRoutes } from './routes/administration.ts';
import { cognitionRoutes } from './routes/cognition.ts';
import { commandRoutes } from './routes/commands.ts';
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

/** In the order of the specification's tables. */
export const routeGroups: readonly RouteGroup[] = [
  { title: 'Identity and tenants', about: 'Who calls, and for which tenant', routes: identityRoutes },
  { title: 'System', about: 'What the service is and how it is; no authentication', routes: systemRoutes },
  { title: 'Devices', about: 'Registration, keys and records of devices', routes: deviceRoutes },
  { title: 'Commands', about: 'Through the safety gateway to a device, and what became of it', routes: commandRoutes },
  { title: 'Safety', about: 'Who may confirm critical commands, and what waits for it', routes: safetyRoutes },
  { title: 'Homes and rooms', about: 'Where devices stand', routes: homeRoutes },
  { title: 'Manifests', about: 'What devices can do', routes: manifestRoutes },
  {
    title: 'Intents and cognition',
    about: 'What is to be done, in terms of the home; what the sidecar makes of it, and proposes',
    routes: cognitionRoutes,
  },
  { title: 'Memory', about: 'What agents remember: observations, preferences and routines', routes: memoryRoutes },
  { title: 'Plans', about: 'Several steps as one, undone where one of them fails', routes: planRoutes },
  { title: 'Firmware', about: 'Releases, and what devices fetch of them', routes: firmwareRoutes },
  { title: 'Groups', about: 'Devices that are commanded together', routes: groupRoutes },
  { title: 'Actors and audit', about: 'What runs, how it got there, and who did what', routes: actorRoutes },
  { title: 'Administration', about: 'For platform operators: tenants and system flags', routes: administrationRoutes },
];

/** Every REST route: what is served, and what the API reference shows. */
export const routes: readonly Route[] = routeGroups.flatMap((chapter) => chapter.routes);
