import type { Tile, TileKind, TileOf } from '../../../src/domain/dashboard.ts';
import type { getDashboard, listDashboards } from '../../../src/operations/homes/dashboards.ts';
import type { ResponseBody } from '../api/answer-types.ts';

export type { Tile, TileKind, TileOf };
export type DashboardBody = ResponseBody<typeof getDashboard>;
export type DashboardRecord = DashboardBody['dashboard'];
export type DashboardListBody = ResponseBody<typeof listDashboards>;
export type DashboardEntry = DashboardListBody['dashboards'][number];

/** The part of a dashboard that a person edits. */
export interface DashboardDraft {
  name: string;
  homeId: string | null;
  tiles: readonly Tile[];
}

/** The service stores only tiles with the members of their kind. */
export const dashboardDraftOf = ({ name, home_id, tiles }: DashboardRecord): DashboardDraft => ({
  ...{ name, homeId: home_id, tiles: tiles as Tile[] },
});

export const DASHBOARDS = '/v1/dashboards';
export const dashboardPath = (id: string): string => `${DASHBOARDS}/${id}`;
export const dashboardHref = (id: string): string => `/dashboards/${id}`;
export const homeDashboardHref = (homeId: string): string => `/dashboards/home/${homeId}`;

export const kindNames: Readonly<Record<TileKind, string>> = {
  value: 'Value',
  sparkline: 'Value with its last 24 hours',
  chart: 'Chart',
  room: 'Room',
  command: 'Button',
  confirmations: 'Waiting confirmations',
  text: 'Text',
};

/** Columns and rows of a new tile. */
export const initialSizes: Readonly<Record<TileKind, { w: number; h: number }>> = {
  value: { w: 3, h: 2 },
  sparkline: { w: 3, h: 2 },
  chart: { w: 6, h: 4 },
  room: { w: 4, h: 3 },
  command: { w: 3, h: 2 },
  confirmations: { w: 4, h: 3 },
  text: { w: 4, h: 2 },
};
