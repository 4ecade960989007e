import { expect, it } from 'vitest';
import { idempotencyRow, tenantCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('administration', (backend) => {
  const administration = () => backend().store.administration;

  it('flags are set and changed, together with the stored response', async () => {
    const also = idempotencyRow();
    await administration().setFlag('maintenance_mode', true, also);
    await administration().setFlag('registration_lock', true);
    await administration().setFlag('registration_lock', false);
    expect(await administration().flags()).toEqual({ maintenance_mode: true, registration_lock: false });
    expect(await backend().store.idempotency.find(also)).toEqual(also);
  });

  it('tenants are listed newest first, page by page', async () => {
    const commits = [tenantCommit(), tenantCommit(), tenantCommit()].map((commit, n) => ({
      ...commit,
      columns: { ...commit.columns, created_at: 5 + n, suspended: n === 1 },
    }));
    await backend().store.actors.commit(commits);
    const first = await administration().tenants(2);
    expect(first.items.map(({ id, suspended }) => [id, suspended])).toEqual([
      [commits[2]?.ref.id, false],
      [commits[1]?.ref.id, true],
    ]);
    const second = await administration().tenants(2, first.next ?? undefined);
    expect(second.items.map(({ id, createdAt }) => [id, createdAt])).toEqual([[commits[0]?.ref.id, 5]]);
    expect(second.next).toBeNull();
  });
});
