import { postIntent } from '../../../operations/intents.ts';
import type { Route } from '../route.ts';

export const intentRoutes: Route[] = [{ method: 'POST', path: '/intent', operation: postIntent, success: 200 }];
