import { categoryOf } from '../../../src/domain/capability-registry.ts';
import { MAX_TILES } from '../../../src/domain/dashboard-grid.ts';
import { forEachLeaf, untimedReport } from '../../../src/domain/history/sample.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { mainProperty } from '../devices/main-value.ts';
import { initialSizes, type Tile, type TileKind } from './dashboard-types.ts';
import { freePlace } from './layout.ts';

/** A device as far as the derived dashboard depends on it. */
export interface HomeDevice {
  id: string;
  device_type: string;
  room_id: string | null;
  state: JsonObject;
}

type Content = { [Kind in TileKind]: Omit<Extract<Tile, { kind: Kind }>, 'x' | 'y' | 'w' | 'h'> }[TileKind];

const MAX_VALUES = 8;
const MAX_BUTTONS = 8;
const MAX_ROOMS = 12;

/**
 * The default dashboard of a home: pending confirmations, main values, buttons of lights, and rooms. The same devices give the
 * same tiles.
 */
export function homeTiles(homeId: string, roomIds: readonly string[], devices: readonly HomeDevice[]): Tile[] {
  const sorted = [...devices].sort((one, other) => (one.id < other.id ? -1 : 1));
  const lights = sorted.filter(({ device_type }) => ['light', 'switch'].includes(categoryOf(device_type) ?? ''));
  const values = sorted
    .filter((device) => !lights.includes(device))
    .flatMap(valueTile)
    .slice(0, MAX_VALUES);
  const buttons = lights.flatMap(({ id: device_id }) =>
    (['turn_on', 'turn_off'] as const).map(
      (action): Content => ({
        kind: 'command',
        id: `${action === 'turn_on' ? 'on' : 'off'}-${short(device_id)}`,
        device_id,
        action,
      }),
    ),
  );
  const rooms = roomIds
    .slice(0, MAX_ROOMS)
    .map((room_id): Content => ({ kind: 'room', id: `room-${short(room_id)}`, home_id: homeId, room_id }));
  const waiting: Content = { kind: 'confirmations', id: 'waiting' };
  return arranged([...values, waiting, ...buttons.slice(0, MAX_BUTTONS), ...rooms].slice(0, MAX_TILES));
}

/** Unique among the ids of a home: the random end of a UUID. */
const short = (id: string): string => id.replaceAll('-', '').slice(-24);

function valueTile({ id, device_type, state }: HomeDevice): Content[] {
  const name = mainProperty(device_type, state);
  const tiles: Content[] = [];
  if (name !== null)
    forEachLeaf(untimedReport({ [name]: state[name] ?? null }), (property, value) => {
      const kind = typeof value === 'number' ? 'sparkline' : 'value';
      if (tiles.length === 0) tiles.push({ kind, id: `value-${short(id)}`, device_id: id, property });
    });
  return tiles;
}

function arranged(contents: readonly Content[]): Tile[] {
  const tiles: Tile[] = [];
  for (const content of contents) {
    const size = initialSizes[content.kind];
    tiles.push({ ...content, ...size, ...freePlace(tiles, size) } as Tile);
  }
  return tiles;
}
