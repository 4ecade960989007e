import { describe, expect, it } from 'vitest';
import type { FirmwareRelease } from '../../../src/store/contract/firmware.ts';
import { idempotencyRow, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('firmware', (backend) => {
  const firmware = () => backend().store.firmware;
  const draft = (more: Partial<FirmwareRelease> = {}): FirmwareRelease => ({
    id: newId(),
    tenantId: newId(),
    deviceType: 'smart_light',
    version: '1.2.3',
    notes: null,
    status: 'draft',
    rolloutPercent: 100,
    url: null,
    checksum: null,
    size: null,
    signature: null,
    signatureKeyId: null,
    artifact: null,
    createdAt: 1,
    releasedAt: null,
    releasedBy: null,
    ...more,
  });
  const released = {
    status: 'released',
    checksum: 'a'.repeat(64),
    url: 'https://example.com/f',
    releasedAt: 2,
    releasedBy: newId(),
  } as const;

  describe('a release', () => {
    it('is stored with the stored response, and visible to its tenant only', async () => {
      const one = draft({ notes: 'first', rolloutPercent: 10 });
      const also = idempotencyRow();
      expect(await firmware().insert(one, also)).toBe(true);
      expect(await backend().store.idempotency.find(also)).toEqual(also);
      expect(await firmware().find(one.tenantId, one.id)).toEqual(one);
      expect(await firmware().find(newId(), one.id)).toBeNull();
      expect(await firmware().findInAnyTenant(one.id)).toEqual(one);
    });

    it('has a unique version for its tenant and type, regardless of build metadata', async () => {
      const one = draft();
      const also = idempotencyRow();
      await firmware().insert(one);
      expect(await firmware().insert({ ...one, id: newId(), version: '1.2.3+7' }, also)).toBe(false);
      expect(await backend().store.idempotency.find(also)).toBeNull();
      expect(await firmware().insert({ ...one, id: newId(), version: '1.2.3-rc.1' })).toBe(true);
      expect(await firmware().insert({ ...one, id: newId(), deviceType: 'smart_lock' })).toBe(true);
      expect(await firmware().insert({ ...one, id: newId(), tenantId: newId() })).toBe(true);
    });

    it('can change all fields except what identifies it', async () => {
      const one = draft();
      await firmware().insert(one);
      const also = idempotencyRow();
      const changed = {
        ...one,
        ...released,
        rolloutPercent: 30,
        notes: 'out',
        size: 9,
        signature: 's',
        signatureKeyId: 'k',
      };
      await firmware().update(changed, also);
      expect(await firmware().find(one.tenantId, one.id)).toEqual(changed);
      expect(await backend().store.idempotency.find(also)).toEqual(also);
    });

    it('is not released without an artifact', async () => {
      const one = draft();
      await firmware().insert(one);
      await expect(firmware().update({ ...one, ...released, url: null })).rejects.toThrow();
    });
  });

  it('is listed newest first, filtered by type and status', async () => {
    const tenantId = newId();
    const all = [
      draft({ tenantId, version: '1.0.0', createdAt: 1 }),
      draft({ tenantId, version: '2.0.0', createdAt: 2, ...released }),
      draft({ tenantId, version: '3.0.0', createdAt: 3, deviceType: 'smart_lock', ...released }),
    ];
    for (const release of all) await firmware().insert(release);
    const versions = (page: { items: FirmwareRelease[] }) => page.items.map(({ version }) => version);
    const first = await firmware().list(tenantId, {}, 2);
    expect(versions(first)).toEqual(['3.0.0', '2.0.0']);
    expect(versions(await firmware().list(tenantId, {}, 2, first.next ?? undefined))).toEqual(['1.0.0']);
    expect(versions(await firmware().list(tenantId, { status: 'released' }, 9))).toEqual(['3.0.0', '2.0.0']);
    expect(versions(await firmware().list(tenantId, { deviceType: 'smart_light' }, 9))).toEqual(['2.0.0', '1.0.0']);
    expect(versions({ items: await firmware().released(tenantId, 'smart_light') })).toEqual(['2.0.0']);
    expect(await firmware().list(newId(), {}, 9)).toMatchObject({ items: [], next: null });
  });

  it('a file without a release is found as unused, and a file of a release is kept', async () => {
    const [kept, stray, young] = [newId(), newId(), newId()];
    for (const [name, at] of [
      [kept, 10],
      [stray, 10],
      [young, 20],
    ] as const)
      await firmware().beginArtifact(name, at);
    const one = draft({ artifact: { name: kept, bytes: 5 }, checksum: 'b'.repeat(64) });
    await firmware().insert(one);
    expect(await firmware().countReleases(one.tenantId)).toBe(1);
    expect(await firmware().countArtifacts(one.tenantId)).toEqual({ count: 1, bytes: one.artifact?.bytes });
    expect(await firmware().orphanedArtifacts(20)).toEqual([stray]);
    await firmware().forgetArtifacts([kept, stray]);
    expect(await firmware().orphanedArtifacts(21)).toEqual([young]);
    await firmware().update({ ...one, artifact: null });
    expect((await firmware().orphanedArtifacts(21)).sort()).toEqual([kept, young].sort());
  });
});
