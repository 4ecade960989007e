import { expect, it } from 'vitest';
import { homeTiles } from '../../../console/src/dashboards/home-tiles.ts';
import { tilesInput } from '../../../src/domain/dashboard.ts';

const id = (n: number) => `0195d9a2-7f00-7000-8000-${`${n}`.padStart(12, '0')}`;
const device = (n: number, device_type: string, state = {}) => ({ id: id(n), device_type, room_id: null, state });

const devices = [
  device(3, 'smart_light', { on: true, brightness: 40 }),
  device(1, 'environment_sensor', { temperature: 20.5, humidity: 40 }),
  device(2, 'smart_lock', { locked: true }),
  device(4, 'environment_sensor'),
];

const all = { isComplete: true };

it('the dashboard of a home has main values, what waits, buttons of lights, and rooms', () => {
  const tiles = homeTiles(id(90), [id(50)], devices, all);
  expect(
    tiles.map((tile) => [tile.kind, 'property' in tile ? tile.property : 'action' in tile ? tile.action : null]),
  ).toEqual([
    ['sparkline', 'temperature'],
    ['value', 'locked'],
    ['confirmations', null],
    ['command', 'turn_on'],
    ['command', 'turn_off'],
    ['room', null],
  ]);
});

it('the derived tiles can be stored, and do not depend on the order of the devices', () => {
  const many = Array.from({ length: 30 }, (_, n) =>
    device(n, n % 2 === 0 ? 'smart_light' : 'smart_lock', { locked: false }),
  );
  for (const given of [devices, many, []]) {
    const tiles = homeTiles(id(90), [id(50), id(51)], given, all);
    expect(tilesInput.safeParse(tiles).error).toBeUndefined();
    expect(homeTiles(id(90), [id(50), id(51)], [...given].reverse(), all)).toEqual(tiles);
  }
});

it('rooms without devices come last and have one row, unless the home may have more devices', () => {
  const inRoom = (n: number, room: number) => ({ ...device(n, 'environment_sensor'), room_id: id(room) });
  const roomsOf = (isComplete: boolean) =>
    homeTiles(id(90), [id(50), id(51), id(52)], [inRoom(1, 51), device(2, 'smart_lock')], { isComplete }).flatMap(
      (tile) => (tile.kind === 'room' ? [[tile.room_id, tile.h]] : []),
    );
  expect(roomsOf(true)).toEqual([
    [id(51), 3],
    [id(50), 1],
    [id(52), 1],
  ]);
  expect(roomsOf(false)).toEqual([50, 51, 52].map((n) => [id(n), 3]));
});
