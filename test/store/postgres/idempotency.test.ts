import { expect, it } from 'vitest';
import { IdempotencyConflict, type IdempotencyRow } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, journalEntry, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

/** The row of a competing attempt: the same key and body, another response. */
const rival = (row: IdempotencyRow): IdempotencyRow => ({ ...row, answer: 'of the other attempt' });

eachStore('an idempotency key that another attempt used', (backend) => {
  const store = () => backend().store;

  it.each<[string, Partial<IdempotencyRow>]>([
    ['found none', {}],
    ['found a row that was replaced since', { replaces: 'ids' }],
  ])('keeps its response: a write whose request %s is refused', async (_, found) => {
    const row = idempotencyRow();
    await store().idempotency.put(row);
    await expect(store().idempotency.put({ ...rival(row), ...found })).rejects.toBeInstanceOf(IdempotencyConflict);
    expect(await store().idempotency.find(row)).toEqual(row);
  });

  it('rejects a commit with another response, which stores nothing', async () => {
    const row = idempotencyRow();
    await store().actors.commit([deviceCommit({ idempotency: row })]);
    const bystander = deviceCommit();
    const second = deviceCommit({ idempotency: rival(row), journal: [journalEntry(1)] });
    const refused = store().actors.commit([bystander, second]);
    await expect(refused).rejects.toBeInstanceOf(IdempotencyConflict);
    expect(await store().actors.load('device', [bystander.ref.id, second.ref.id])).toEqual([]);
    expect(await store().actors.journal(second.ref, 10)).toEqual([]);
    expect(await store().idempotency.find(row)).toEqual(row);
  });

  it('accepts one of two concurrent commits', async () => {
    const row = idempotencyRow();
    const commits = [deviceCommit({ idempotency: row }), deviceCommit({ idempotency: rival(row) })];
    const tries = await Promise.allSettled(commits.map((actor) => store().actors.commit([actor])));
    expect(tries.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const kept = await store().actors.load(
      'device',
      commits.map(({ ref }) => ref.id),
    );
    const winner = commits[tries.findIndex(({ status }) => status === 'fulfilled')];
    expect(kept.map(({ ref }) => ref)).toEqual([winner?.ref]);
    expect((await store().idempotency.find(row))?.answer).toBe(winner?.idempotency?.answer);
  });

  it('rejects a plain record with another response, which stores nothing', async () => {
    const row = idempotencyRow();
    const home = () => ({ id: newId(), tenantId: newId(), name: 'Home', timezone: null, createdAt: 1 });
    const [first, second] = [home(), home()];
    await store().records.insertHome(first, row);
    await expect(store().records.insertHome(second, rival(row))).rejects.toBeInstanceOf(IdempotencyConflict);
    expect(await store().records.home(first.tenantId, first.id)).toEqual(first);
    expect(await store().records.home(second.tenantId, second.id)).toBeNull();
    expect(await store().idempotency.find(row)).toEqual(row);
  });
});
