import { expect, it } from 'vitest';
import type { Proposal } from '../../../src/domain/proposal.ts';
import type { Position } from '../../../src/store/contract.ts';
import { idempotencyRow, newId, planCommit, tenantCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;
const GIVEN_UP = 'There are newer ones.';

eachStore('proposals', (backend) => {
  const proposals = () => backend().store.proposals;
  const commitAll = (...actors: ReturnType<typeof planCommit>[]) => backend().store.actors.commit(actors);
  let at = 1_000_000;
  const proposal = (more: Partial<Proposal> = {}): Proposal => ({
    ...{ id: newId(), tenantId: newId(), deviceId: newId(), homeId: null, data: { humidity: 80 }, note: 'Bath' },
    ...{ askedBy: { kind: 'user', id: newId() }, status: 'pending', reason: null, steps: [], phase: 'thinking' },
    ...{ memories: null, planId: null, createdAt: ++at, spokenAt: null },
    ...more,
  });
  const keep = async (more: Partial<Proposal> = {}, most = 100): Promise<Proposal> => {
    const made = proposal(more);
    await proposals().insert(made, most, GIVEN_UP);
    return made;
  };
  const step = {
    ...{ id: 'fan', deviceId: newId(), action: 'turn_on', params: { speed: 2 }, dependsOn: ['a'] },
    ...{ compensation: { action: 'turn_off', params: {} }, timeoutS: 9 },
  };

  it('are returned unchanged, with the stored response of the request', async () => {
    const also = idempotencyRow();
    const memory = { id: newId(), kind: 'routine', subject: null, source: 'user:u', adoptedBy: null } as const;
    const memories = [{ ...memory, steps: ['fan'] }];
    const made = proposal({ homeId: newId(), steps: [step], memories, reason: 'It is damp.', phase: 'suspended' });
    await proposals().insert(made, 9, GIVEN_UP, also);
    expect(await proposals().find(made.id)).toEqual(made);
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await proposals().find(newId())).toBeNull();
  });

  it('of a tenant are listed newest first in pages', async () => {
    const tenantId = newId();
    const all = [await keep({ tenantId }), await keep({ tenantId }), await keep({ tenantId, createdAt: at })];
    await keep();
    const newestFirst = all.reverse().sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
    const first = await proposals().list(tenantId, 2);
    expect(first.items).toEqual(newestFirst.slice(0, 2));
    const second = await proposals().list(tenantId, 2, first.next ?? undefined);
    expect(second).toMatchObject({ items: newestFirst.slice(2), next: null });
  });

  it('change while they are pending, and not afterwards', async () => {
    const { id } = await keep();
    expect(await proposals().change(id, { steps: [step], memories: [] })).toMatchObject({
      ...{ steps: [step], memories: [], phase: 'thinking' },
    });
    const spoken = await proposals().change(id, { phase: 'done', reason: 'It is damp.', spokenAt: 7 });
    expect(spoken).toMatchObject({ status: 'pending', steps: [step], reason: 'It is damp.', spokenAt: 7 });
    const also = idempotencyRow();
    expect(await proposals().change(id, { status: 'refused' }, also)).toEqual({ ...spoken, status: 'refused' });
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    const late = idempotencyRow();
    expect(await proposals().change(id, { reason: 'Other' }, late)).toBeNull();
    expect(await backend().store.idempotency.find(late)).toBeNull();
    expect(await proposals().find(id)).toMatchObject({ status: 'refused', reason: 'It is damp.' });
    expect(await proposals().change(newId(), { status: 'refused' })).toBeNull();
  });

  it('are not open for planning after the planning ended', async () => {
    const { id } = await keep({ phase: 'suspended' });
    const done = await proposals().change(id, { phase: 'done' });
    expect(await proposals().change(id, { phase: 'thinking' })).toBeNull();
    expect(await proposals().change(id, { phase: 'thinking', steps: [step] })).toBeNull();
    expect(await proposals().find(id)).toEqual(done);
  });

  it('are accepted once, in the commit of their plan; a second plan stores nothing', async () => {
    const { id } = await keep({ phase: 'done', steps: [step] });
    const accepting = (proposalId: string) => {
      const plan = planCommit();
      return { ...plan, rows: [{ type: 'proposal.accept' as const, proposalId, planId: plan.ref.id }] };
    };
    const first = accepting(id);
    await commitAll(first);
    expect(await proposals().find(id)).toMatchObject({ status: 'accepted', planId: first.ref.id });
    const refused = await keep();
    await proposals().change(refused.id, { status: 'refused' });
    for (const commit of [accepting(id), accepting(refused.id), accepting(newId())]) {
      await expect(commitAll(commit)).rejects.toMatchObject({ name: 'DataRefused', sqlState: '23505' });
      expect(await backend().store.actors.load('plan', [commit.ref.id])).toEqual([]);
    }
    expect(await proposals().find(id)).toMatchObject({ planId: first.ref.id });
  });

  it('wait for a sidecar without messages, the oldest first, in pages', async () => {
    const tenantId = newId();
    const since = at;
    const [old, first, second] = [
      await keep({ tenantId, createdAt: since }),
      await keep({ tenantId }),
      await keep({ tenantId }),
    ];
    await keep({ tenantId, phase: 'done' });
    await keep({ tenantId, status: 'refused' });
    const suspended = await keep({ tenantId, phase: 'suspended' });
    const other = await keep();
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const page = await proposals().open(since, 2, after, tenantId);
      seen.push(...page.items.map(({ id }) => id));
      after = page.next ?? undefined;
    } while (after);
    expect(seen).toEqual([first.id, second.id, suspended.id]);
    expect((await proposals().open(since, 99)).items.map(({ id }) => id)).toEqual([...seen, other.id]);
    expect((await proposals().open(since - 1, 1)).items).toEqual([old]);
  });

  it('of a suspended tenant are not listed as waiting, unless that tenant is given', async () => {
    const tenant = tenantCommit({ columns: { suspended: true } });
    await commitAll(tenant);
    const tenantId = tenant.ref.id;
    const { id } = await keep({ tenantId });
    expect((await proposals().open(0, 200)).items.map((one) => one.id)).not.toContain(id);
    expect((await proposals().open(0, 9, undefined, tenantId)).items.map((one) => one.id)).toEqual([id]);
  });

  it('that wait are limited, and the oldest are dropped for new ones', async () => {
    const tenantId = newId();
    const all = [await keep({ tenantId, steps: [step] }, 2), await keep({ tenantId }, 2), proposal({ tenantId })];
    expect(await proposals().insert(all[2] as Proposal, 2, GIVEN_UP)).toEqual([all[0]?.id]);
    const other = await keep();
    expect((await proposals().open(0, 99, undefined, tenantId)).items).toEqual(all.slice(1));
    expect(await proposals().find(String(all[0]?.id))).toMatchObject({
      phase: 'done',
      reason: GIVEN_UP,
      status: 'pending',
      steps: [],
    });
    expect(await proposals().find(other.id)).toEqual(other);
  });

  it('are kept as long as commands', async () => {
    const aged = (days: number) => {
      const createdAt = Date.now() - days * DAY;
      const hex = createdAt.toString(16).padStart(12, '0');
      return keep({ id: `${hex.slice(0, 8)}-${hex.slice(8)}${newId().slice(13)}`, createdAt });
    };
    const [young, old] = [await aged(89), await aged(91)];
    await backend().store.retention.prune(Date.now(), { commands: 90, journal: 365 }, 10);
    expect(await proposals().find(young.id)).toEqual(young);
    expect(await proposals().find(old.id)).toBeNull();
  });
});
