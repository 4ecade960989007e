import { expect, it } from 'vitest';
import type { IdempotencyRow } from '../../../src/store/contract.ts';
import { deviceCommit, idempotencyRow, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const OLD = 'oldkeyoldke';
const NEW = 'newkeynewke';
const sealedBy = (id: string, body = 'body'): string => `s1.${id}.${body}`;

eachStore('sealed values', (backend) => {
  const values = () => backend().store.sealedValues;
  const key = (deviceId: string, keyVersion: number, sealedSecret: string | null) => ({
    ...{ type: 'key.put' as const, deviceId },
    key: {
      ...{ keyVersion, sealedSecret, createdAt: 1 },
      ...(sealedSecret === null
        ? { signingAlg: 'ed25519' as const, publicKey: 'public' }
        : { signingAlg: 'hmac-sha256' as const, publicKey: null }),
    },
  });

  async function addKeys(...secrets: (string | null)[]): Promise<string> {
    const id = newId();
    await backend().store.actors.commit([
      deviceCommit({ id, rows: secrets.map((secret, n) => key(id, n + 1, secret)) }),
    ]);
    return id;
  }
  async function addAnswer(row: Partial<IdempotencyRow>): Promise<IdempotencyRow> {
    const added = { ...idempotencyRow(), ...row };
    await backend().store.idempotency.put(added);
    return added;
  }
  const secretOf = async (id: string) => (await backend().store.devices.keyHistory(id))[0]?.sealedSecret;

  it('are read page by page, each once, with the keys that have no secret', async () => {
    const ids = [await addKeys(sealedBy(OLD), sealedBy(NEW)), await addKeys(null), await addKeys(sealedBy(OLD))];
    const found: [string, number, string | null][] = [];
    for (let page = await values().deviceSecrets(null, 2); page.length > 0; ) {
      expect(page.length).toBeLessThanOrEqual(2);
      for (const { deviceId, keyVersion, sealed } of page) found.push([deviceId, keyVersion, sealed]);
      page = await values().deviceSecrets(page.at(-1) ?? null, 2);
    }
    const [both = '', without = '', one = ''] = ids;
    expect(found.filter(([id]) => ids.includes(id))).toEqual([
      [both, 1, sealedBy(OLD)],
      [both, 2, sealedBy(NEW)],
      [without, 1, null],
      [one, 1, sealedBy(OLD)],
    ]);
  });

  it('of requests are read page by page, a dropped answer without its value', async () => {
    const subject = newId();
    const rows = [await addAnswer({ answer: sealedBy(OLD) }), await addAnswer({ answer: sealedBy(OLD), subject })];
    await backend().store.idempotency.dropFor(subject);
    const found: { principal: string; key: string; sealed: string | null }[] = [];
    for (let page = await values().answers(null, 1); page.length > 0; ) {
      found.push(...page);
      page = await values().answers(page.at(-1)?.digest ?? null, 1);
    }
    for (const [n, { principal, method, path, key, expiresAt }] of rows.entries()) {
      expect(found.filter((one) => one.principal === principal && one.key === key)).toMatchObject([
        { method, path, expiresAt, sealed: n === 0 ? sealedBy(OLD) : null },
      ]);
    }
  });

  it('are replaced only if they have not changed since', async () => {
    const [id, other] = [await addKeys(sealedBy(OLD)), await addKeys(sealedBy(OLD, 'other'))];
    const change = (deviceId: string, from: string) => ({ deviceId, keyVersion: 1, from, to: sealedBy(NEW) });
    expect(await values().replaceSecrets([])).toBe(0);
    expect(await values().replaceSecrets([change(id, sealedBy(OLD)), change(other, sealedBy(OLD))])).toBe(1);
    expect(await values().replaceSecrets([change(id, sealedBy(OLD))])).toBe(0);
    expect([await secretOf(id), await secretOf(other)]).toEqual([sealedBy(NEW), sealedBy(OLD, 'other')]);

    const row = await addAnswer({ answer: sealedBy(OLD) });
    const { digest = '' } = (await values().answers(null, 1_000)).find((one) => one.principal === row.principal) ?? {};
    expect(await values().replaceAnswers([{ digest, from: 'another', to: sealedBy(NEW) }])).toBe(0);
    expect(await values().replaceAnswers([{ digest, from: sealedBy(OLD), to: sealedBy(NEW) }])).toBe(1);
    expect(await backend().store.idempotency.find(row)).toEqual({ ...row, answer: sealedBy(NEW) });
  });

  it('that name another master key are counted, and expired answers are not', async () => {
    const [lost, now] = [newId().slice(-11).replace('-', '_'), Date.now()];
    const before = await values().withOtherKeys([OLD, NEW], now);
    await addKeys(sealedBy(lost), sealedBy(NEW));
    await addKeys(null);
    await addAnswer({ answer: sealedBy(lost), expiresAt: now + 1_000 });
    await addAnswer({ answer: sealedBy(lost), expiresAt: now - 1_000 });
    const found = await values().withOtherKeys([OLD, NEW], now);
    expect(found.filter(({ keyId }) => keyId === lost)).toEqual([
      { kind: 'device_secrets', keyId: lost, rows: 1 },
      { kind: 'stored_answers', keyId: lost, rows: 1 },
    ]);
    expect(await values().withOtherKeys([OLD, NEW, lost], now)).toEqual(before);
  });

  it('and other rows are counted', async () => {
    const before = await values().count();
    await addKeys(sealedBy(OLD), null);
    await addAnswer({ answer: sealedBy(OLD) });
    expect(await values().count()).toBe(before + 3);
  });
});
