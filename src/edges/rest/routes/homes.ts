import { createHome } from '../../../operations/homes.ts';
import type { Route } from '../route.ts';

export const homeRoutes: Route[] = [{ method: 'POST', path: '/homes', operation: createHome, success: 201 }];
