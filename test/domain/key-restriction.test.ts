import { describe, expect, it } from 'vitest';
import { type KeyRestriction, limitsDevices, permitsAction, reachesDevice } from '../../src/domain/key-restriction.ts';

const lamp = { id: 'lamp', homeId: 'home', roomId: 'room', category: 'light' };

describe('the devices that a restriction reaches', () => {
  it.each<[string, KeyRestriction, boolean]>([
    ['of the home', { homes: ['home'] }, true],
    ['of another home', { homes: ['other'] }, false],
    ['in the room', { rooms: ['other', 'room'] }, true],
    ['in another room of the home', { rooms: ['other'] }, false],
    ['that are named', { devices: ['lamp'] }, true],
    ['in any of the places', { homes: ['other'], devices: ['lamp'] }, true],
    ['in none of the places', { homes: ['other'], rooms: ['other'], devices: ['other'] }, false],
    ['of the category, without places', { categories: ['light'] }, true],
    ['of another category', { rooms: ['room'], categories: ['lock'] }, false],
    ['all, with actions alone', { actions: ['turn_on'] }, true],
  ])('%s', (_, restriction, reached) => {
    expect(reachesDevice(restriction, lamp, false)).toBe(reached);
  });

  it('of the groups, which the caller looks up', () => {
    expect(reachesDevice({ groups: ['evening'] }, lamp, true)).toBe(true);
    expect(reachesDevice({ groups: ['evening'] }, lamp, false)).toBe(false);
    expect(reachesDevice({ groups: ['evening'], categories: ['lock'] }, lamp, true)).toBe(false);
  });

  it('without home, room and category are in no place and no category', () => {
    const loose = { id: 'loose', homeId: null, roomId: null, category: null };
    expect(reachesDevice({ homes: ['home'], rooms: ['room'] }, loose, false)).toBe(false);
    expect(reachesDevice({ categories: ['light'] }, loose, false)).toBe(false);
    expect(reachesDevice({ devices: ['loose'] }, loose, false)).toBe(true);
  });

  it('are all devices only if neither places nor categories are named', () => {
    expect(limitsDevices({ actions: ['turn_on'] })).toBe(false);
    for (const restriction of [{ homes: [] }, { rooms: [] }, { groups: [] }, { devices: [] }, { categories: [] }])
      expect(limitsDevices(restriction)).toBe(true);
  });
});

it('actions are all, or those that are named', () => {
  expect(permitsAction({ rooms: ['room'] }, 'unlock')).toBe(true);
  expect(permitsAction({ actions: ['turn_on'] }, 'turn_on')).toBe(true);
  expect(permitsAction({ actions: ['turn_on'] }, 'unlock')).toBe(false);
});
