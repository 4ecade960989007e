import type { Route } from './route.ts';
import { commandRoutes } from './routes/commands.ts';
import { deviceRoutes } from './routes/devices.ts';
import { groupRoutes } from './routes/groups.ts';
import { homeRoutes } from './routes/homes.ts';
import { identityRoutes } from './routes/identity.ts';
import { manifestRoutes } from './routes/manifests.ts';
import { systemRoutes } from './routes/system.ts';

/** The chapters of the API reference, in the order of the specification's tables. */
export const chapters: readonly { title: string; routes: readonly Route[] }[] = [
  { title: 'Identity and tenants', routes: identityRoutes },
  { title: 'System', routes: systemRoutes },
  { title: 'Devices', routes: deviceRoutes },
  { title: 'Commands', routes: commandRoutes },
  { title: 'Homes and rooms', routes: homeRoutes },
  { title: 'Manifests', routes: manifestRoutes },
  { title: 'Groups', routes: groupRoutes },
];

/** Every REST route: what is served, and what the API reference shows. */
export const routes: readonly Route[] = chapters.flatMap((chapter) => chapter.routes);
