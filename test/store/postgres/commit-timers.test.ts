import { describe, expect, it } from 'vitest';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { commitCalls } from './commit-calls.ts';

eachStore('a commit', (backend) => {
  const { actors, commitAll, timersOf } = commitCalls(backend);

  describe('of timers', () => {
    const timer = (id: string, name: string, dueAt: number) => ({
      ref: { kind: 'device' as const, id },
      id: name,
      event: 'over',
      dueAt,
    });

    it('sets, replaces and clears them', async () => {
      const id = newId();
      const first = deviceCommit({ id, timers: { set: [timer(id, 'a', 10), timer(id, 'b', 20)] } });
      await commitAll(first);
      const second = nextCommit(first, { timers: { set: [timer(id, 'a', 30)], clear: ['b', 'unknown'] } });
      await commitAll(second);
      expect(await timersOf(id)).toEqual([timer(id, 'a', 30)]);
      await commitAll(nextCommit(second, { timers: { set: [timer(id, 'a', 40)], clear: ['a'] } }));
      expect(await timersOf(id)).toEqual([timer(id, 'a', 40)]);
      const spent = { ref: { kind: 'device', id } as const, id: 'a', version: 3 };
      await actors().dropTimers([spent], 39);
      expect(await timersOf(id)).toEqual([timer(id, 'a', 40)]);
      // The actor has a newer version, which may understand the timer.
      await actors().dropTimers([{ ...spent, version: 2 }], 40);
      expect(await timersOf(id)).toEqual([timer(id, 'a', 40)]);
      await actors().dropTimers([spent], 40);
      expect(await timersOf(id)).toEqual([]);
    });

    it('can postpone a timer, but not one that was set again', async () => {
      const [id, other] = [newId(), newId()];
      await commitAll(
        ...[id, other].map((one) =>
          deviceCommit({ id: one, timers: { set: [timer(one, 'a', 10), timer(one, 'b', 10)] } }),
        ),
      );
      const late = { ref: { kind: 'device', id } as const, id: 'a' };
      await actors().postponeTimer(late, 9, 30);
      expect(await timersOf(id)).toEqual([timer(id, 'a', 10), timer(id, 'b', 10)]);
      await actors().postponeTimer(late, 10, 30);
      expect(await timersOf(id)).toEqual([timer(id, 'b', 10), timer(id, 'a', 30)]);
      expect(await timersOf(other)).toHaveLength(2);
    });

    it('makes them due oldest first, only up to the given time', async () => {
      const id = newId();
      await commitAll(
        deviceCommit({ id, timers: { set: [timer(id, 'c', -7), timer(id, 'a', -9), timer(id, 'b', -8)] } }),
      );
      expect(await actors().nextTimerAt()).toBe(-9);
      expect((await actors().dueTimers(-8, 10)).map((due) => due.id)).toEqual(['a', 'b']);
      expect((await actors().dueTimers(-7, 2)).map((due) => due.id)).toEqual(['a', 'b']);
      await actors().dropTimers(
        ['a', 'b', 'c'].map((name) => ({ ref: { kind: 'device', id }, id: name, version: 1 })),
        0,
      );
    });
  });
});
