import type { Row } from './endpoint.ts';
import { actorRows } from './table-actors.ts';
import { administrationRows } from './table-administration.ts';
import { cognitionRows } from './table-cognition.ts';
import { dashboardRows } from './table-dashboards.ts';
import { deviceCaRows } from './table-device-cas.ts';
import { deviceRows } from './table-devices.ts';
import { firmwareRows } from './table-firmware.ts';
import { placeRows } from './table-homes.ts';
import { identityRows } from './table-identity.ts';
import { memoryRows } from './table-memories.ts';
import { planRows } from './table-plans.ts';

/**
 * The endpoint tables of the specification and of the contract, written by hand. The served routes and the
 * documentation are compared with them.
 */
export const table: readonly Row[] = [
  ...identityRows,
  ...deviceRows,
  ...deviceCaRows,
  ...placeRows,
  ...dashboardRows,
  ...firmwareRows,
  ...administrationRows,
  ...planRows,
  ...cognitionRows,
  ...actorRows,
  ...memoryRows,
];
