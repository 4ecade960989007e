import { expect, it } from 'vitest';
import { shardOf } from '../../../src/domain/shards.ts';
import { deviceCommit, idempotencyRow, tenantCommit } from '../../support/actor-commits.ts';
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

  it('tenants and devices that are not deleted are counted by shard', async () => {
    const tenant = tenantCommit();
    const shard = shardOf(tenant.ref.id);
    const counts = async () => {
      const found = (await administration().contentsByShard()).find((one) => one.shard === shard);
      return { tenants: found?.tenants ?? 0, devices: found?.devices ?? 0 };
    };
    const before = await counts();
    const device = () => deviceCommit({ tenantId: tenant.ref.id });
    const gone = device();
    const deleted = { ...gone, columns: { ...gone.columns, deleted: true } };
    await backend().store.actors.commit([tenant, device(), device(), deleted]);
    expect(await counts()).toEqual({ tenants: before.tenants + 1, devices: before.devices + 2 });
  });
});
