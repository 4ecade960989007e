import { describe, expect, it } from 'vitest';
import type { KeyRestriction } from '../../../../src/domain/key-restriction.ts';
import { LiveReach } from '../../../../src/edges/shared/live/live-reach.ts';
import { initialDevice } from '../../../../src/machines/device-types.ts';
import { makeLocalInvalidationBus } from '../../../../src/services/invalidation-bus.ts';
import { eventLoopTurns } from '../../../support/clock.ts';

const device = (id: string, roomId: string) => ({
  ref: { kind: 'device', id },
  snapshot: {
    value: { administration: 'active', link: 'online' },
    context: { ...initialDevice, fixed: { ...initialDevice.fixed, id, tenantId: 't', roomId } },
  },
});

function setUp(restriction: KeyRestriction) {
  const invalidations = makeLocalInvalidationBus();
  const devices = new Map([
    ['lamp', device('lamp', 'living')],
    ['lock', device('lock', 'hall')],
  ]);
  const inMemory = new Set(['lamp', 'lock']);
  const groups = { evening: ['lamp'] };
  let fails = false;
  const services = {
    invalidations,
    actors: {
      peek: ({ id }: { id: string }) => (inMemory.has(id) ? devices.get(id) : undefined),
      read: async ({ id }: { id: string }) => {
        if (fails) throw new Error('unavailable');
        return devices.get(id) ?? null;
      },
    },
    store: { records: { group: async () => ({ deviceIds: [...groups.evening] }) } },
  };
  let lost = 0;
  const onLost = () => {
    lost += 1;
  };
  const reach = LiveReach.of(services as never, { restriction, tenantId: 't' }, onLost);
  const delivered: string[] = [];
  const report = (id: string | null, text = `${id}`) => reach?.deliver(id, () => delivered.push(text));
  const fail = () => {
    fails = true;
  };
  return { reach, report, delivered, devices, inMemory, groups, invalidations, fail, lost: () => lost };
}

describe('a live connection of a restricted key', () => {
  it('receives updates of devices within reach, where they are then, and none that belong to no device', async () => {
    const { report, delivered, devices } = setUp({ rooms: ['living'] });
    for (const id of ['lamp', 'lock', 'unknown', null]) report(id);
    expect(delivered).toEqual(['lamp']);
    // The unknown device is looked up.
    await eventLoopTurns();
    devices.set('lock', device('lock', 'living'));
    devices.set('lamp', device('lamp', 'hall'));
    for (const id of ['lamp', 'lock']) report(id);
    expect(delivered).toEqual(['lamp', 'lock']);
  });

  it('receives them in order if some devices are not in memory', async () => {
    const { report, delivered, inMemory } = setUp({ rooms: ['living'] });
    inMemory.delete('lamp');
    report('lamp', 'first');
    inMemory.add('lamp');
    report('lamp', 'second');
    report('lock');
    expect(delivered).toEqual([]);
    await eventLoopTurns();
    expect(delivered).toEqual(['first', 'second']);
    report('lamp', 'third');
    expect(delivered).toEqual(['first', 'second', 'third']);
  });

  it('waits for the groups after each change of them', async () => {
    const { report, delivered, groups, invalidations } = setUp({ groups: ['evening'] });
    report('lamp');
    report('lock');
    await eventLoopTurns();
    expect(delivered).toEqual(['lamp']);
    groups.evening = ['lock'];
    invalidations.publish({ about: 'groups', tenantId: 'another' });
    report('lamp', 'still');
    expect(delivered).toEqual(['lamp', 'still']);
    invalidations.publish({ about: 'groups', tenantId: 't' });
    report('lamp', 'left');
    report('lock', 'joined');
    await eventLoopTurns();
    expect(delivered).toEqual(['lamp', 'still', 'joined']);
  });

  it('receives nothing that cannot be decided, and nothing after it was closed', async () => {
    const { reach, report, delivered, inMemory, fail } = setUp({ rooms: ['living'] });
    inMemory.delete('lamp');
    report('lamp', 'waiting');
    reach?.close();
    await eventLoopTurns();
    report('lamp', 'late');
    expect(delivered).toEqual([]);
    const other = setUp({ rooms: ['living'] });
    other.inMemory.delete('lamp');
    other.fail();
    other.report('lamp');
    await eventLoopTurns();
    expect(other.delivered).toEqual([]);
    fail();
  });

  it('ends, and receives nothing more, if an update cannot be decided or too many wait', async () => {
    const { report, delivered, inMemory, fail, lost } = setUp({ rooms: ['living'] });
    inMemory.delete('lamp');
    fail();
    report('lamp', 'first');
    report('lamp', 'second');
    await eventLoopTurns();
    inMemory.add('lamp');
    report('lamp', 'third');
    expect([delivered, lost()]).toEqual([[], 1]);
    const crowded = setUp({ rooms: ['living'] });
    crowded.inMemory.delete('lamp');
    for (let n = 0; n < 1_000; n++) crowded.report('lamp');
    expect(crowded.lost()).toBe(0);
    for (let n = 0; n < 2; n++) crowded.report('lamp');
    expect(crowded.lost()).toBe(1);
    await eventLoopTurns();
    expect(crowded.delivered).toEqual([]);
  });

  it('subscribes to changes of groups only if its key names groups', () => {
    const listeners = ({ invalidations }: ReturnType<typeof setUp>) => invalidations.sizes().news_listeners;
    expect(listeners(setUp({ rooms: ['living'] }))).toBe(0);
    const grouped = setUp({ groups: ['evening'] });
    expect(listeners(grouped)).toBe(1);
    grouped.reach?.close();
    expect(listeners(grouped)).toBe(0);
  });

  it('does not exist for a key that reaches every device', () => {
    expect(setUp({ actions: ['turn_on'] }).reach).toBeNull();
  });
});
