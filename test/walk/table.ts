import type { Row } from './row.ts';
import { actorRows } from './table-actors.ts';
import { cognitionRows } from './table-cognition.ts';
import { deviceRows } from './table-devices.ts';
import { firmwareRows } from './table-firmware.ts';
import { governanceRows } from './table-governance.ts';
import { identityRows } from './table-identity.ts';
import { memoryRows } from './table-memories.ts';
import { placeRows } from './table-places.ts';
import { planRows } from './table-plans.ts';

/**
 * The specification's endpoint tables and the contract's own, written down by hand: what is served and what is
 * documented is compared with this.
 */
export const table: readonly Row[] = [
  ...identityRows,
  ...deviceRows,
  ...placeRows,
  ...firmwareRows,
  ...governanceRows,
  ...planRows,
  ...cognitionRows,
  ...actorRows,
  ...memoryRows,
];
