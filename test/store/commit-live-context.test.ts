import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/domain/values.ts';
import { commandCommit, deviceCommit, journalEntry, newId, nextCommit } from '../support/actor-commits.ts';
import { eachStore } from '../support/store.ts';
import { commitCalls } from './commit-calls.ts';

eachStore('a commit', (backend, has) => {
  const { actors, devices, turn, load } = commitCalls(backend);

  describe('of live fields', () => {
    const moving = new Set(['state', 'count']);
    const context = { id: 'd', name: 'Lamp', state: { on: true }, count: 1 };
    const settledTo = (before: ReturnType<typeof deviceCommit>, moved: JsonObject, given: JsonObject = {}) =>
      nextCommit(before, {
        ...given,
        unchangedBase: true,
        liveFields: moving,
        context: { ...before.context, ...moved },
      });
    const rowOf = async (id: string) =>
      (
        await backend().database.read<{ context: JsonObject; moving: JsonObject | null; online: boolean }>({
          text: 'select context, moving, online from devices where id = $1',
          values: [id],
        })
      )[0];

    it('writes only the live fields, and returns the whole context', async () => {
      const made = deviceCommit({ context, liveFields: moving });
      await turn(made);
      if (has.sql) {
        expect(await rowOf(made.ref.id)).toMatchObject({
          context: { id: 'd', name: 'Lamp' },
          moving: { state: { on: true }, count: 1 },
        });
      }
      const columns = { ...made.columns, online: true, device_type: 'not written' };
      const moved = settledTo(made, { state: { quotes: '"\\u0000" \\ \n 𝄞 ü', none: null }, count: 2 }, { columns });
      const unwritten = { ...moved, context: { ...moved.context, name: 'not written' } };
      expect(await turn(unwritten)).toEqual({ lost: [] });
      expect(await load(made.ref.id)).toMatchObject({ version: 2, context: moved.context });
      if (has.sql) expect(await rowOf(made.ref.id)).toMatchObject({ context: { id: 'd', name: 'Lamp' } });
      const [listed] = await devices().find(made.tenantId, [made.ref.id]);
      expect(listed).toMatchObject({ deviceType: 'smart_light', online: true, name: 'Lamp' });

      const whole = nextCommit(moved, { context: { ...moved.context, name: 'Renamed', count: 3 } });
      expect(await turn(whole)).toEqual({ lost: [] });
      expect((await load(made.ref.id))?.context).toEqual(whole.context);
    });

    it('writes nothing of a conflicted actor, and keeps the live fields of the others', async () => {
      const [mine, other, plain] = [
        deviceCommit({ context, liveFields: moving }),
        deviceCommit({ context, liveFields: moving }),
        deviceCommit(),
      ];
      await turn(mine, other, plain);
      const rival = settledTo(mine, { count: 7 });
      await turn(rival);
      const late = settledTo(mine, { count: 8 }, { journal: [journalEntry(2)] as never });
      const made = commandCommit({ context: { status: 'x', id: 'c' }, liveFields: new Set(['status']) });
      const answer = await turn(late, settledTo(other, { count: 2 }), nextCommit(plain, { context: { all: 1 } }), made);
      expect(answer).toEqual({ lost: [mine.ref] });
      expect(await load(mine.ref.id)).toMatchObject({ version: 2, context: { count: 7, name: 'Lamp' } });
      expect(await actors().journal(mine.ref, 10)).toEqual([]);
      expect(await load(other.ref.id)).toMatchObject({ version: 2, context: { count: 2, name: 'Lamp' } });
      expect((await load(plain.ref.id))?.context).toEqual({ all: 1 });
      expect((await actors().load('command', [made.ref.id]))[0]?.context).toMatchObject({ status: 'x', id: 'c' });
      const torn = {
        actors: [settledTo(other, { count: 9 }), settledTo(rival, { count: 9 })],
        delivered: [],
        atomic: true,
      };
      expect((await actors().commit(torn)).lost).toHaveLength(2);
      expect((await load(mine.ref.id))?.context.count).toBe(7);
    });

    it.runIf(has.sql)('reads a row of an earlier format with all fields in one column, and updates it', async () => {
      const tenantId = newId();
      const old = deviceCommit({
        tenantId,
        context: { name: 'Old', state: { on: true }, stateVersion: 4, reportedAt: 12 },
      });
      await turn(old);
      await backend().database.write({ text: 'update devices set moving = null where id = $1', values: [old.ref.id] });
      expect((await load(old.ref.id))?.context).toEqual(old.context);
      const states = async () => (await devices().states(tenantId)).map(({ deviceId: _, ...rest }) => rest);
      expect(await states()).toEqual([{ state: { on: true }, stateVersion: 4, reportedAt: 12 }]);

      const moved = { state: { on: false }, stateVersion: 5, reportedAt: null };
      const after = nextCommit(old, {
        unchangedBase: true,
        liveFields: new Set(Object.keys(moved)),
        context: { ...old.context, ...moved },
      });
      expect(await turn(after)).toEqual({ lost: [] });
      expect((await load(old.ref.id))?.context).toEqual({ name: 'Old', ...moved });
      expect(await states()).toEqual([moved]);
    });

    it('is refused as data with NUL or a lone surrogate, and accepted with their escaped spelling', async () => {
      const made = deviceCommit({ context, liveFields: moving });
      await turn(made);
      for (const [text, sqlState] of [
        ['a\u0000b', '22P05'],
        ['\\\u0000', '22P05'],
        ['a\ud800b', '22P02'],
        ['\udc00\ud800', '22P02'],
      ] as const) {
        for (const state of [{ text }, { [text]: 1 }]) {
          const refusal = turn(deviceCommit(), settledTo(made, { state }));
          await expect(refusal).rejects.toMatchObject({ name: 'DataRefused', sqlState });
          await expect(turn(deviceCommit({ context: { state }, liveFields: moving }))).rejects.toMatchObject({
            sqlState,
          });
        }
      }
      const spelt = { text: '\\u0000 \\\\ud800 \u0001 \\' };
      expect(await turn(settledTo(made, { state: spelt }))).toEqual({ lost: [] });
      expect((await load(made.ref.id))?.context.state).toEqual(spelt);
    });
  });
});
