import { describe, expect, it } from 'vitest';
import { eventsOf, findStates, nextEvents, statesOf } from '../../src/machines/chart.ts';
import { chartToMermaid } from '../../src/machines/chart-markdown.ts';
import { actorKinds } from '../../src/machines/outputs.ts';
import { currentDefinition } from '../../src/machines/versions.ts';

const machine = (kind: (typeof actorKinds)[number]) => currentDefinition(kind).machine;

describe('a chart', () => {
  it.each(actorKinds)('of the %s machine has each state once, with an explanation and its events', (kind) => {
    const states = statesOf(machine(kind));
    const paths = states.map(({ path }) => path.join('.'));
    expect(new Set(paths).size).toBe(paths.length);
    const regions = machine(kind).root.type === 'parallel' ? Object.keys(machine(kind).root.states) : [];
    for (const { path, description } of states) {
      if (!regions.includes(path.join('.'))) expect([path, description]).not.toEqual([path, '']);
    }
    expect(eventsOf(machine(kind)).some((event) => event.startsWith('self.') || event.startsWith('xstate.'))).toBe(
      false,
    );
  });

  it('lists the events of a state, including timers', () => {
    expect(nextEvents(machine('tenant'), 'suspended')).toEqual(['policy.set', 'resume', 'suspend', 'tier.set']);
    expect(nextEvents(machine('device'), { administration: { active: 'two_keys' }, link: 'online' })).toEqual(
      expect.arrayContaining(['after grace over', 'rotate', 'revoke', 'state.reported', 'presence.lost']),
    );
    expect(nextEvents(machine('device'), { administration: 'deleted', link: 'offline' })).not.toContain('rotate');
    expect(() => nextEvents(machine('tenant'), 'gone')).toThrow();
  });

  it.each([
    ['tenant', 'active', [['active']]],
    ['device', 'active', [['administration', 'active']]],
    ['device', 'administration.active.one_key', [['administration', 'active', 'one_key']]],
    ['device', 'active.one_key', [['administration', 'active', 'one_key']]],
    ['device', 'link.online', [['link', 'online']]],
    ['device', 'online', [['link', 'online']]],
    [
      'command',
      'timed_out',
      [
        ['lifecycle', 'timed_out'],
        ['verification', 'timed_out'],
      ],
    ],
    ['command', 'lifecycle.timed_out', [['lifecycle', 'timed_out']]],
    ['device', 'gone', []],
    ['device', '', []],
    ['device', 'active.', []],
  ] as const)('of the %s machine: %s selects the states %j', (kind, text, paths) => {
    expect(findStates(machine(kind), text)).toEqual(paths);
  });

  it('is one Mermaid diagram with regions as states', () => {
    expect(chartToMermaid(machine('tenant'))).toMatch(/^stateDiagram-v2\n {2}\[\*\] --> unregistered\n/);
    const device = chartToMermaid(machine('device'));
    expect(device.match(/stateDiagram-v2/g)).toHaveLength(1);
    expect(device).toContain('state "administration" as administration {');
    expect(device).toContain('state "link" as link {');
  });
});
