import { z } from 'zod';
import {
  GRID_COLUMNS,
  MAX_ROW,
  MAX_TILE_HEIGHT,
  MAX_TILE_SERIES,
  MAX_TILES,
  overlaps,
  type TilePlace,
  tileRanges,
} from './dashboard-grid.ts';
import { MAX_PROPERTY_LENGTH } from './history/sample.ts';
import { jsonBytes } from './json/value.ts';
import { INVISIBLE_CHARACTER } from './memory.ts';
import { actionName, jsonObject } from './request-fields.ts';
import { uuid } from './uuid-schema.ts';
import type { EpochMs, JsonObject, Uuid } from './values.ts';

const MAX_TEXT = 4_000;
const MAX_TILE_PARAMS_BYTES = 2_048;

const property = z
  .string()
  .min(1)
  .max(MAX_PROPERTY_LENGTH)
  .refine((text) => !INVISIBLE_CHARACTER.test(text) && !/[\n\t]/.test(text), 'must not contain control characters')
  .meta({ description: 'The path of a property of the state or of telemetry, as the history names it' });
const range = z.enum(tileRanges).meta({ id: 'TileRange' });

const common = {
  id: z.string().regex(/^[A-Za-z0-9-]{1,36}$/, 'must have 1 to 36 letters, digits or hyphens'),
  title: z
    .string()
    .min(1)
    .max(100)
    .regex(/^\P{Cc}*$/u, 'must not contain control characters')
    .optional()
    .meta({ description: 'Instead of the name of what the tile shows' }),
  x: z
    .int()
    .min(0)
    .max(GRID_COLUMNS - 1)
    .meta({ description: 'The first of the 12 columns, from 0' }),
  y: z.int().min(0).max(MAX_ROW).meta({ description: 'The first row, from 0' }),
  w: z.int().min(1).max(GRID_COLUMNS).meta({ description: 'Width in columns' }),
  h: z.int().min(1).max(MAX_TILE_HEIGHT).meta({ description: 'Height in rows' }),
};

/** The members of each kind of tile, besides its place. */
const settings = {
  value: { device_id: uuid, property },
  /** The last 24 hours. */
  sparkline: { device_id: uuid, property },
  chart: {
    series: z
      .array(z.strictObject({ device_id: uuid, property }))
      .min(1)
      .max(MAX_TILE_SERIES),
    range,
  },
  room: { home_id: uuid, room_id: uuid },
  command: {
    device_id: uuid,
    action: actionName,
    params: jsonObject
      .refine((params) => jsonBytes(params) <= MAX_TILE_PARAMS_BYTES, `is over ${MAX_TILE_PARAMS_BYTES} bytes`)
      .optional(),
  },
  confirmations: {},
  text: {
    text: z
      .string()
      .overwrite((text) => text.replace(/\r\n?/g, '\n'))
      .max(MAX_TEXT)
      .refine((text) => !INVISIBLE_CHARACTER.test(text), 'must not contain control or invisible characters')
      .meta({
        description: 'Text, in which lines with `# ` and `- `, `**bold**` and `*italics*` have the meaning of Markdown',
      }),
  },
} satisfies Record<string, z.ZodRawShape>;

export type TileKind = keyof typeof settings;
export const tileKinds = Object.keys(settings) as [TileKind, ...TileKind[]];

/** A tile, with exactly the members of its kind. */
const tileSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('value'), ...common, ...settings.value }),
  z.strictObject({ kind: z.literal('sparkline'), ...common, ...settings.sparkline }),
  z.strictObject({ kind: z.literal('chart'), ...common, ...settings.chart }),
  z.strictObject({ kind: z.literal('room'), ...common, ...settings.room }),
  z.strictObject({ kind: z.literal('command'), ...common, ...settings.command }),
  z.strictObject({ kind: z.literal('confirmations'), ...common, ...settings.confirmations }),
  z.strictObject({ kind: z.literal('text'), ...common, ...settings.text }),
]);
export type Tile = z.infer<typeof tileSchema>;
export type TileOf<Kind extends TileKind> = Extract<Tile, { kind: Kind }>;

/** The same as one object, for protocols without unions: each kind requires its own members and allows no others. */
export const tileRecord = z
  .strictObject({
    kind: z.enum(tileKinds).meta({ id: 'TileKind' }),
    ...common,
    device_id: uuid.optional().meta({ description: 'Of `value`, `sparkline` and `command`' }),
    property: property
      .optional()
      .meta({ description: 'Of `value` and `sparkline`: the path of a property of the state or of telemetry' }),
    series: settings.chart.series.optional().meta({ description: 'Of `chart`' }),
    range: range.optional().meta({ description: 'Of `chart`' }),
    home_id: uuid.optional().meta({ description: 'Of `room`' }),
    room_id: uuid.optional().meta({ description: 'Of `room`' }),
    action: actionName.optional().meta({ description: 'Of `command`' }),
    params: settings.command.params.meta({
      description: 'Of `command`: its parameters. `{"write_only": true}` stands for a value that is not shown',
    }),
    text: settings.text.text
      .optional()
      .meta({ description: `Of \`text\`: at most ${MAX_TEXT} characters, some Markdown` }),
  })
  .meta({ id: 'DashboardTile' });
type TileRecord = z.infer<typeof tileRecord>;

/** The tiles of a dashboard: of known kinds, within the grid, and without overlaps. */
export const tilesInput = z
  .array(tileRecord)
  .max(MAX_TILES)
  .superRefine((given, context) => {
    given.forEach((tile, index) => {
      const read = tileSchema.safeParse(tile);
      for (const { path, message, code } of read.error?.issues ?? [])
        context.addIssue({
          code: 'custom',
          path: [index, ...path],
          message: code === 'invalid_type' ? 'is required' : message,
        });
      const problem = placeProblem(given, index);
      if (problem !== null)
        context.addIssue({ code: 'custom', path: [index, problem.member], message: problem.message });
    });
  })
  .transform((tiles: TileRecord[]) => tiles as Tile[]);

function placeProblem(tiles: readonly TilePlace[], index: number): { member: string; message: string } | null {
  const tile = tiles[index] as TilePlace;
  if (tile.x + tile.w > GRID_COLUMNS) return { member: 'w', message: `must end within the ${GRID_COLUMNS} columns` };
  const before = tiles.slice(0, index);
  if (before.some(({ id }) => id === tile.id)) return { member: 'id', message: 'is the id of another tile' };
  const covered = before.find((other) => overlaps(tile, other));
  return covered === undefined ? null : { member: 'y', message: `overlaps the tile ${covered.id}` };
}

/** A stored dashboard. */
export interface Dashboard {
  id: Uuid;
  tenantId: Uuid;
  name: string;
  /** The home that it belongs to, which may have been deleted. */
  homeId: Uuid | null;
  /** 1 after the creation, and one more after each change. */
  version: number;
  tiles: readonly Tile[];
  /** `user:<id>` or `key:<prefix>`. */
  createdBy: string;
  createdAt: EpochMs;
  changedBy: string;
  changedAt: EpochMs;
}

/** An entry of a list of dashboards: their tiles are large. */
export interface DashboardSummary extends Omit<Dashboard, 'tiles'> {
  tileCount: number;
}

/** The parameters of the button of a command tile. */
export const paramsOf = ({ params }: TileOf<'command'>): JsonObject => params ?? {};
