import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { ActorCommit } from '../../../src/store/contract.ts';
import { commandCommit, deviceCommit, journalEntry, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';
import { flatContext } from '../../support/stored-context.ts';
import { commitCalls } from './commit-calls.ts';

eachStore('a commit', (backend, has) => {
  const { actors, devices, commitAll, load } = commitCalls(backend);

  describe('of a live part', () => {
    const context = { fixed: { id: 'd', name: 'Lamp' }, live: { state: { on: true }, count: 1 } };
    const changeLive = (before: ActorCommit, changes: JsonObject, given: JsonObject = {}) =>
      nextCommit(before, { ...given, fixedUnchanged: true, live: { ...before.live, ...changes } });
    const rowOf = async (id: string) =>
      (
        await backend().database.read<{ context: JsonObject; live: JsonObject | null; online: boolean }>({
          text: 'select context, live, online from devices where id = $1',
          values: [id],
        })
      )[0];

    it('writes only that part, and returns the whole context', async () => {
      const made = deviceCommit(context);
      await commitAll(made);
      if (has.sql) {
        expect(await rowOf(made.ref.id)).toMatchObject({
          context: { id: 'd', name: 'Lamp' },
          live: { state: { on: true }, count: 1 },
        });
      }
      const columns = { ...made.columns, online: true, device_type: 'not written' };
      const moved = changeLive(made, { state: { quotes: '"\\u0000" \\ \n 𝄞 ü', none: null }, count: 2 }, { columns });
      const unwritten = { ...moved, fixed: { ...moved.fixed, name: 'not written' } };
      expect(await commitAll(unwritten)).toEqual({ lost: [] });
      expect(await load(made.ref.id)).toMatchObject({ version: 2, context: flatContext(moved) });
      if (has.sql) expect(await rowOf(made.ref.id)).toMatchObject({ context: { id: 'd', name: 'Lamp' } });
      const [listed] = await devices().find(made.tenantId, [made.ref.id]);
      expect(listed).toMatchObject({ deviceType: 'smart_light', online: true, name: 'Lamp' });

      const whole = nextCommit(moved, {
        fixed: { ...moved.fixed, name: 'Renamed' },
        live: { ...moved.live, count: 3 },
      });
      expect(await commitAll(whole)).toEqual({ lost: [] });
      expect((await load(made.ref.id))?.context).toEqual(flatContext(whole));
    });

    it('writes nothing of a conflicted actor, and keeps the live parts of the others', async () => {
      const [mine, other, plain] = [deviceCommit(context), deviceCommit(context), deviceCommit()];
      await commitAll(mine, other, plain);
      const rival = changeLive(mine, { count: 7 });
      await commitAll(rival);
      const late = changeLive(mine, { count: 8 }, { journal: [journalEntry(2)] as never });
      const made = commandCommit({ fixed: { id: 'c' }, live: { status: 'x' } });
      const answer = await commitAll(
        late,
        changeLive(other, { count: 2 }),
        nextCommit(plain, { fixed: { all: 1 } }),
        made,
      );
      expect(answer).toEqual({ lost: [mine.ref] });
      expect(await load(mine.ref.id)).toMatchObject({ version: 2, context: { count: 7, name: 'Lamp' } });
      expect(await actors().journal(mine.ref, 10)).toEqual([]);
      expect(await load(other.ref.id)).toMatchObject({ version: 2, context: { count: 2, name: 'Lamp' } });
      expect((await load(plain.ref.id))?.context).toEqual({ all: 1 });
      expect((await actors().load('command', [made.ref.id]))[0]?.context).toMatchObject({ status: 'x', id: 'c' });
      const conflicted = [changeLive(other, { count: 9 }), changeLive(rival, { count: 9 })];
      expect((await actors().commit(conflicted, { atomic: true })).lost).toHaveLength(2);
      expect((await load(mine.ref.id))?.context.count).toBe(7);
    });

    it.runIf(has.sql)('reads a row of an earlier format with all fields in one column, and updates it', async () => {
      const tenantId = newId();
      const old = deviceCommit({
        tenantId,
        fixed: { name: 'Old', state: { on: true }, stateVersion: 4, reportedAt: 12 },
      });
      await commitAll(old);
      await backend().database.write({ text: 'update devices set live = null where id = $1', values: [old.ref.id] });
      expect((await load(old.ref.id))?.context).toEqual(old.fixed);
      const states = async () => (await devices().states(tenantId)).map(({ deviceId: _, ...rest }) => rest);
      expect(await states()).toEqual([{ state: { on: true }, stateVersion: 4, reportedAt: 12 }]);

      const moved = { state: { on: false }, stateVersion: 5, reportedAt: null };
      const after = nextCommit(old, { fixedUnchanged: true, live: moved });
      expect(await commitAll(after)).toEqual({ lost: [] });
      expect((await load(old.ref.id))?.context).toEqual({ name: 'Old', ...moved });
      expect(await states()).toEqual([moved]);
    });

    it('is refused as data with NUL or a lone surrogate, and accepted with their escaped spelling', async () => {
      const made = deviceCommit(context);
      await commitAll(made);
      for (const [text, sqlState] of [
        ['a\u0000b', '22P05'],
        ['\\\u0000', '22P05'],
        ['a\ud800b', '22P02'],
        ['\udc00\ud800', '22P02'],
      ] as const) {
        for (const state of [{ text }, { [text]: 1 }]) {
          const refusal = commitAll(deviceCommit(), changeLive(made, { state }));
          await expect(refusal).rejects.toMatchObject({ name: 'DataRefused', sqlState });
          await expect(commitAll(deviceCommit({ live: { state } }))).rejects.toMatchObject({
            sqlState,
          });
        }
      }
      const spelt = { text: '\\u0000 \\\\ud800 \u0001 \\' };
      expect(await commitAll(changeLive(made, { state: spelt }))).toEqual({ lost: [] });
      expect((await load(made.ref.id))?.context.state).toEqual(spelt);
    });
  });
});
