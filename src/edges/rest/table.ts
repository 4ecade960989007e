import type { Route } from './route.ts';
import { commandRoutes } from './routes/commands.ts';
import { deviceRoutes } from './routes/devices.ts';
import { groupRoutes } from './routes/groups.ts';
import { homeRoutes } from './routes/homes.ts';
import { identityRoutes } from './routes/identity.ts';
import { manifestRoutes } from './routes/manifests.ts';
import { systemRoutes } from './routes/system.ts';

/** Every REST route, in the order of the specification's tables: what is served, and what the API reference shows. */
export const routes: readonly Route[] = [
  ...identityRoutes,
  ...systemRoutes,
  ...deviceRoutes,
  ...commandRoutes,
  ...homeRoutes,
  ...manifestRoutes,
  ...groupRoutes,
];
