import { expect, it } from 'vitest';
import type { FirmwareKey } from '../../../src/domain/firmware-signing.ts';
import { idempotencyRow, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('firmware signing', (backend) => {
  const signing = () => backend().store.firmwareSigning;
  let at = 0;
  const key = (keyId: string): FirmwareKey => ({
    ...{ keyId, publicKey: `public ${keyId}`, name: 'Release key', addedBy: newId(), createdAt: ++at },
  });

  it('is not required, and has no keys, at first', async () => {
    expect(await signing().find(newId())).toEqual({ required: false, keys: [] });
  });

  it('is required once a key is registered, which is stored with the response of the request', async () => {
    const [tenantId, other] = [newId(), newId()];
    const also = idempotencyRow();
    const [one, two] = [key('b'), key('a')];
    expect(await signing().addKey(tenantId, one, 9, also)).toBe(true);
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await signing().addKey(tenantId, two, 9)).toBe(true);
    expect(await signing().find(tenantId)).toEqual({ required: true, keys: [one, two] });
    expect(await signing().find(other)).toEqual({ required: false, keys: [] });
  });

  it('has each key once, and at most as many as given', async () => {
    const tenantId = newId();
    const one = key('a');
    const also = idempotencyRow();
    await signing().addKey(tenantId, one, 2);
    await signing().setRequired(tenantId, false);
    expect(await signing().addKey(tenantId, { ...key('a'), name: 'Again' }, 2, also)).toBe(false);
    await signing().addKey(tenantId, key('b'), 2);
    expect(await signing().addKey(tenantId, key('c'), 2, also)).toBe(false);
    expect(await backend().store.idempotency.find(also)).toBeNull();
    expect((await signing().find(tenantId)).keys.map(({ name, keyId }) => [keyId, name])).toEqual([
      ['a', 'Release key'],
      ['b', 'Release key'],
    ]);
    expect(await signing().addKey(newId(), key('a'), 2)).toBe(true);
  });

  it('stays required when its keys are removed, until that is changed', async () => {
    const [tenantId, other] = [newId(), newId()];
    await signing().addKey(tenantId, key('a'), 9);
    expect(await signing().removeKey(other, 'a')).toBe(false);
    expect(await signing().removeKey(tenantId, 'a')).toBe(true);
    expect(await signing().removeKey(tenantId, 'a')).toBe(false);
    expect(await signing().find(tenantId)).toEqual({ required: true, keys: [] });
    await signing().setRequired(tenantId, false);
    await signing().setRequired(other, true);
    expect(await signing().find(tenantId)).toEqual({ required: false, keys: [] });
    expect(await signing().find(other)).toEqual({ required: true, keys: [] });
  });
});
