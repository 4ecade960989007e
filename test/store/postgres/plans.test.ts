import { expect, it } from 'vitest';
import type { Position } from '../../../src/store/contract.ts';
import { journalEntry, newId, nextCommit, planCommit, tenantCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;

eachStore('plans', (backend) => {
  const plans = () => backend().store.plans;
  const commitAll = (...actors: ReturnType<typeof planCommit>[]) => backend().store.actors.commit(actors);
  const idsOf = (commits: readonly ReturnType<typeof planCommit>[]) => commits.map(({ ref }) => ref.id);

  it('of a tenant are listed newest first in pages', async () => {
    const tenantId = newId();
    const commits = Array.from({ length: 5 }, (_, n) => planCommit({ tenantId, columns: { created_at: n >> 1 } }));
    await commitAll(...commits, planCommit());
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const page = await plans().list(tenantId, 2, after);
      seen.push(...page.items.map(({ ref }) => ref.id));
      after = page.next ?? undefined;
      await commitAll(planCommit({ tenantId, columns: { created_at: 99 } }));
    } while (after);
    const newestFirst = [...commits].sort(
      (a, b) => Number(b.columns.created_at) - Number(a.columns.created_at) || (a.ref.id < b.ref.id ? 1 : -1),
    );
    expect(seen).toEqual(idsOf(newestFirst));
    expect(await plans().list(newId(), 2)).toMatchObject({ items: [], next: null });
  });

  it('that are open are neither ended nor quarantined, the oldest first', async () => {
    const tenantId = newId();
    const [late, early, over] = [
      planCommit({ tenantId, columns: { created_at: 9 } }),
      planCommit({ tenantId, columns: { created_at: 1 } }),
      planCommit({ tenantId, columns: { over: true, status: 'succeeded' } }),
    ];
    await commitAll(late, early, over, planCommit());
    expect(await plans().open(tenantId)).toEqual(idsOf([early, late]));
    await commitAll(nextCommit(early, { columns: { ...early.columns, over: true } }));
    expect(await plans().open(tenantId)).toEqual(idsOf([late]));
    await backend().store.actors.quarantine(late.ref, 'it failed');
    expect(await plans().open(tenantId)).toEqual([]);
  });

  it('that wait for a planner are marked as such, the oldest first, in pages', async () => {
    const tenantId = newId();
    const thought = (n: number) => planCommit({ tenantId, columns: { thought: true, created_at: n } });
    const [late, early, quiet] = [thought(9), thought(1), thought(5)];
    await commitAll(late, early, quiet, planCommit({ tenantId }));
    const first = await plans().awaitingPlanner(2, undefined, tenantId);
    expect(first.items).toEqual(idsOf([early, quiet]));
    const second = await plans().awaitingPlanner(2, first.next ?? undefined, tenantId);
    expect(second).toMatchObject({ items: idsOf([late]), next: null });
    await commitAll(nextCommit(early, { columns: { ...early.columns, thought: false } }));
    await backend().store.actors.quarantine(quiet.ref, 'it failed');
    const all = (await plans().awaitingPlanner(200)).items;
    expect(all.filter((id) => idsOf([late, early, quiet]).includes(id))).toEqual(idsOf([late]));
    const tenant = tenantCommit({ id: tenantId, columns: { suspended: true } });
    await commitAll(tenant);
    expect((await plans().awaitingPlanner(200)).items).not.toContain(late.ref.id);
    expect((await plans().awaitingPlanner(9, undefined, tenantId)).items).toEqual(idsOf([late]));
  });

  it('are kept as long as commands, and open ones with their journal', async () => {
    const old = (age: number, over: boolean) => {
      const at = Date.now() - age * DAY;
      const hex = at.toString(16).padStart(12, '0');
      const id = `${hex.slice(0, 8)}-${hex.slice(8)}${newId().slice(13)}`;
      return planCommit({ id, columns: { over, created_at: at }, journal: [journalEntry(1, { at })] });
    };
    const [young, gone, open, sender] = [old(89, true), old(400, true), old(400, false), old(400, true)];
    sender.outbox.push({ n: 0, output: { type: 'plan.ask', planId: newId(), stepId: 'a', commandId: newId() } });
    await commitAll(young, gone, open, sender);
    await backend().store.retention.prune(Date.now(), { commands: 90, journal: 365 }, 10);
    const { actors } = backend().store;
    const kept = (await actors.load('plan', idsOf([young, gone, open, sender]))).map(({ ref }) => ref.id);
    expect(new Set(kept)).toEqual(new Set(idsOf([young, open, sender])));
    expect((await actors.journal(open.ref, 9)).length).toBe(1);
    expect(await actors.journal(gone.ref, 9)).toEqual([]);
    await actors.commit([], { delivered: [{ from: sender.ref, version: sender.version, n: 0 }] });
  });
});
