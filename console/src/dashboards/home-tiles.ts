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

/** With a height other than the initial one of its kind. */
type SizedContent = Content & { h?: number };

const MAX_VALUES = 8;
const MAX_BUTTONS = 8;
const MAX_ROOMS = 12;

/** A room without devices has one line. */
const EMPTY_ROOM_ROWS = 1;

/**
 * The default dashboard of a home: pending confirmations, main values, buttons of lights, and rooms, those without devices last.
 * The same devices give the same tiles. `isComplete`: the home has no other devices.
 */
export function homeTiles(
  homeId: string,
  roomIds: readonly string[],
  devices: readonly HomeDevice[],
  { isComplete }: { isComplete: boolean },
): Tile[] {
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
  const isEmpty = (roomId: string): boolean => isComplete && !devices.some(({ room_id }) => room_id === roomId);
  const rooms = [...roomIds.filter((id) => !isEmpty(id)), ...roomIds.filter(isEmpty)]
    .slice(0, MAX_ROOMS)
    .map((room_id): SizedContent => {
      const rows = isEmpty(room_id) ? { h: EMPTY_ROOM_ROWS } : {};
      return { kind: 'room', id: `room-${short(room_id)}`, home_id: homeId, room_id, ...rows };
    });
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

function arranged(contents: readonly SizedContent[]): Tile[] {
  const tiles: Tile[] = [];
  for (const content of contents) {
    const size = { ...initialSizes[content.kind], ...(content.h !== undefined && { h: content.h }) };
    tiles.push({ ...content, ...size, ...freePlace(tiles, size) } as Tile);
  }
  return tiles;
}
