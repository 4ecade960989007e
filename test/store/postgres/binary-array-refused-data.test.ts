import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import { DataRefused } from '../../../src/store/contract.ts';
import {
  commandCommit,
  deviceCommit,
  idempotencyRow,
  journalEntry,
  newId,
  nextCommit,
  tenantCommit,
} from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const notified = (deviceId: string) => ({
  type: 'actor.tell' as const,
  to: { kind: 'device' as const, id: deviceId },
  event: { type: 'device.revoked' as const, deviceId },
});
const home = (more: object = {}) => ({
  ...{ id: newId(), tenantId: newId(), name: 'Home', timezone: null, createdAt: 1 },
  ...more,
});

eachStore('stored data', (backend) => {
  const store = () => backend().store;
  const commitAll = (...actors: ReturnType<typeof deviceCommit>[]) => store().actors.commit(actors);
  const contextOf = async (id: string) => (await store().actors.load('device', [id]))[0]?.context;

  describe('and the objects of the caller', () => {
    it('are separate: changing one later does not change the other', async () => {
      const commit = deviceCommit({ live: { state: { on: true } }, journal: [journalEntry(1, { data: { a: 1 } })] });
      const one = home();
      await commitAll(commit);
      await store().records.insertHome(one);
      (commit.live.state as JsonObject).on = false;
      (commit.journal[0]?.data as JsonObject).a = 2;
      one.name = 'Changed';
      const loaded = await contextOf(commit.ref.id);
      expect(loaded).toEqual({ state: { on: true } });
      (loaded?.state as JsonObject).on = 'changed';
      expect(await contextOf(commit.ref.id)).toEqual({ state: { on: true } });
      expect((await store().actors.journal(commit.ref, 1))[0]?.data).toEqual({ a: 1 });
      const found = await store().records.home(one.tenantId, one.id);
      expect(found?.name).toBe('Home');
    });

    it('differ in values that JSON cannot represent: undefined members and non-finite numbers', async () => {
      const context = { gone: undefined, list: [undefined, Number.NaN, -0], kept: { a: undefined, b: 1 } };
      const commit = deviceCommit({ fixed: context as unknown as JsonObject });
      await commitAll(commit);
      const loaded = await contextOf(commit.ref.id);
      expect(Object.keys(loaded ?? {}).sort()).toEqual(['kept', 'list']);
      expect(loaded).toStrictEqual({ list: [null, null, 0], kept: { b: 1 } });
    });
  });

  it('of a commit with one refused row is not stored at all', async () => {
    const first = deviceCommit();
    await commitAll(first);
    const bystander = deviceCommit({
      journal: [journalEntry(1)],
      outbox: [{ n: 0, output: notified(first.ref.id) }],
      timers: { set: [{ ref: first.ref, id: 'a', event: 'over', dueAt: 5 }] },
      idempotency: idempotencyRow(),
    });
    const twice = [1, 1].map((version) => journalEntry(version));
    for (const bad of [
      nextCommit(first, { journal: twice }),
      nextCommit(first, { outbox: [0, 0].map((n) => ({ n, output: notified(first.ref.id) })) }),
      nextCommit(first, { columns: { ...first.columns, device_type: null } }),
      nextCommit(first, { columns: { ...first.columns, home_id: 'no uuid' } }),
    ]) {
      await expect(commitAll(bystander, bad)).rejects.toBeInstanceOf(DataRefused);
    }
    expect(await store().actors.load('device', [bystander.ref.id])).toEqual([]);
    expect(await store().actors.journal(bystander.ref, 9)).toEqual([]);
    expect(await store().inspection.timers(bystander.ref)).toEqual([]);
    expect((await store().actors.pendingOutbox(10_000, 0)).filter(({ from }) => from.id === bystander.ref.id)).toEqual(
      [],
    );
    expect(await store().idempotency.find(bystander.idempotency as never)).toBeNull();
    expect(await commitAll(bystander, nextCommit(first))).toEqual({ lost: [] });
  });

  it('is refused if it exceeds the size of an index entry', async () => {
    const slug = randomBytes(4_000).toString('hex');
    await expect(commitAll(tenantCommit({ columns: { slug } }))).rejects.toMatchObject({ sqlState: '54000' });
    expect(await store().identity.slugTaken(slug)).toBe(false);
  });

  it('of a plain record is text: NUL is refused, and a lone surrogate is replaced', async () => {
    await expect(store().records.insertHome(home({ name: 'a\0b' }))).rejects.toMatchObject({ sqlState: '22021' });
    const one = home({ name: 'a\ud800b' });
    await store().records.insertHome(one);
    expect((await store().records.home(one.tenantId, one.id))?.name).toBe('a\ufffdb');
    const [answer, other] = [idempotencyRow({ answer: 'a\0b' }), idempotencyRow({ answer: '\ud800' })];
    for (const [also, sqlState] of [
      [answer, '22P05'],
      [other, '22P02'],
    ] as const) {
      const two = home();
      await expect(store().records.insertHome(two, also)).rejects.toMatchObject({ sqlState });
      expect(await store().records.home(two.tenantId, two.id)).toBeNull();
    }
  });

  it('of outputs is returned in the order of commits, and within a commit by number', async () => {
    const [one, other] = [deviceCommit(), deviceCommit()];
    await commitAll(one, other);
    const outputs = (ref: typeof one.ref) => [1, 0].map((n) => ({ n, output: notified(ref.id) }));
    const second = nextCommit(one, { outbox: outputs(one.ref) });
    await commitAll(second, nextCommit(other, { outbox: outputs(other.ref) }));
    await expect(
      commitAll(nextCommit(second, { outbox: [...outputs(one.ref), ...outputs(one.ref)] })),
    ).rejects.toBeInstanceOf(DataRefused);
    await commitAll(nextCommit(second, { outbox: [{ n: 0, output: notified(other.ref.id) }] }));
    const ours = (await store().actors.pendingOutbox(10_000, 0)).filter(({ from }) =>
      [one.ref.id, other.ref.id].includes(from.id),
    );
    expect(ours.map(({ version, n }) => [version, n])).toEqual([
      [2, 0],
      [2, 0],
      [2, 1],
      [2, 1],
      [3, 0],
    ]);
    const places = ours.map(({ seq }) => seq);
    expect(new Set(places).size).toBe(5);
    // Reading continues after any position.
    const rest = (await store().actors.pendingOutbox(10_000, places[1] as number)).map(({ seq }) => seq);
    expect(rest.filter((seq) => places.includes(seq))).toEqual(places.slice(2));
  });

  it('of an expired stored response is found until it is pruned', async () => {
    const row = idempotencyRow({ expiresAt: 1_000 });
    await store().idempotency.put(row);
    await store().retention.prune(1_000, { commands: 90, journal: 365 }, 10);
    expect(await store().idempotency.find(row)).toEqual(row);
    await store().retention.prune(1_001, { commands: 90, journal: 365 }, 10);
    expect(await store().idempotency.find(row)).toBeNull();
  });

  it('of manifests belongs to its first tenant, and is read by many ids at once', async () => {
    const [tenantId, other] = [newId(), newId()];
    const manifest = (deviceId: string, of: string, version: number) => ({
      type: 'manifest.put' as const,
      manifest: { deviceId, tenantId: of, category: null, version, own: false, capabilities: [] },
    });
    const devices = [deviceCommit({ tenantId }), deviceCommit({ tenantId }), deviceCommit({ tenantId })];
    const [first, second] = devices.map(({ ref }) => ref.id) as [string, string, string];
    const [one, two, without] = devices as [(typeof devices)[0], (typeof devices)[0], (typeof devices)[0]];
    await commitAll(
      { ...one, rows: [manifest(first, tenantId, 1)] },
      { ...two, rows: [manifest(second, tenantId, 1)] },
      without,
    );
    await commitAll(nextCommit(one, { rows: [manifest(first, other, 2)] }));
    const found = await store().devices.manifests([first, second, without.ref.id, newId()]);
    expect(new Map(found.map(({ deviceId, version, tenantId: of }) => [deviceId, [version, of]]))).toEqual(
      new Map([
        [first, [2, tenantId]],
        [second, [1, tenantId]],
      ]),
    );
  });

  it('of an open command is found for its device by the timer that was set last', async () => {
    const [deviceId, tenantId] = [newId(), newId()];
    const timer = (ref: ReturnType<typeof commandCommit>['ref'], id: string) => ({
      ref,
      id,
      event: 'over',
      dueAt: 1_000_000,
    });
    const made = commandCommit({ tenantId, columns: { device_id: deviceId, token_hash: newId() } });
    made.timers.set.push(timer(made.ref, 'a'));
    await commitAll(made);
    const { commands, actors } = store();
    const both = async () => [await commands.open(deviceId), await commands.deliverable(deviceId)];
    expect(await both()).toEqual([[made.ref.id], [made.ref.id]]);
    // Without a timer nothing can happen to the actor.
    const second = nextCommit(made, { timers: { set: [], clear: ['a'] } });
    await commitAll(second);
    expect(await both()).toEqual([[], []]);
    const columns = { ...made.columns, status: 'timed_out' };
    const third = nextCommit(second, { columns, timers: { set: [timer(made.ref, 'late')], clear: [] } });
    await commitAll(third);
    expect(await both()).toEqual([[], []]);
    await commitAll(
      nextCommit(third, { columns: made.columns, timers: { set: [timer(made.ref, 'late')], clear: [] } }),
    );
    expect(await both()).toEqual([[made.ref.id], [made.ref.id]]);
    await actors.dropTimers([{ ref: made.ref, id: 'late', version: 9 }], 1_000_000);
    expect(await both()).toEqual([[], []]);
    expect(await commands.byToken(tenantId, deviceId, String(made.columns.token_hash))).toEqual({
      id: made.ref.id,
      deviceId,
    });
  });
});
