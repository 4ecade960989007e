import { describe, expect, it } from 'vitest';
import { type ActorStatus, createBlankActor, type LiveActor } from '../../src/actors/live-actor.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import { lamp } from '../support/memory-actor-store.ts';

type Change = 'queue' | 'unqueue' | 'startCommit' | 'endCommit' | 'evict';

/** Changes that lead a new actor to each status. */
const pathTo: Record<ActorStatus, readonly Change[]> = {
  idle: [],
  queued: ['queue'],
  committing: ['startCommit'],
  evicted: ['evict'],
};

function actorIn(status: ActorStatus): LiveActor {
  const actor = createBlankActor({ kind: 'device', id: 'a' }, lamp as unknown as MachineDefinition, 0);
  for (const change of pathTo[status]) actor[change]();
  expect(actor.status).toBe(status);
  return actor;
}

describe('the status of a live actor', () => {
  it.each<[ActorStatus, Change, ActorStatus]>([
    ['idle', 'queue', 'queued'],
    ['idle', 'startCommit', 'committing'],
    ['idle', 'evict', 'evicted'],
    ['queued', 'unqueue', 'idle'],
    ['queued', 'evict', 'evicted'],
    ['committing', 'endCommit', 'idle'],
    ['committing', 'evict', 'evicted'],
  ])('changes from %s by %s to %s', (from, change, to) => {
    const actor = actorIn(from);
    actor[change]();
    expect(actor.status).toBe(to);
  });

  it.each<[ActorStatus, Change]>([
    ['idle', 'unqueue'],
    ['idle', 'endCommit'],
    ['queued', 'queue'],
    ['queued', 'startCommit'],
    ['committing', 'queue'],
    ['committing', 'startCommit'],
  ])('does not change from %s by %s', (from, change) => {
    const actor = actorIn(from);
    expect(() => actor[change]()).toThrow(`device:a cannot change from ${from} to`);
    expect(actor.status).toBe(from);
  });

  it.each<Change>(['queue', 'unqueue', 'startCommit', 'endCommit', 'evict'])('stays evicted on %s', (change) => {
    const actor = actorIn('evicted');
    actor[change]();
    expect(actor.status).toBe('evicted');
  });
});
