import { expect, it } from 'vitest';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { IdempotencyRow } from '../../../src/store/contract.ts';
import { commandCommit, deviceCommit, idempotencyRow, newId, planCommit } from '../../support/actor-commits.ts';
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
  const answersAfter = (digest: string | null, rows: number, bytes = 1_000_000) =>
    values().answers(digest, { rows, bytes });
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
    for (let page = await answersAfter(null, 1); page.length > 0; ) {
      found.push(...page);
      page = await answersAfter(page.at(-1)?.digest ?? null, 1);
    }
    for (const [n, { principal, method, path, key, expiresAt }] of rows.entries()) {
      expect(found.filter((one) => one.principal === principal && one.key === key)).toMatchObject([
        { method, path, expiresAt, sealed: n === 0 ? sealedBy(OLD) : null },
      ]);
    }
  });

  it('of requests are read in pages of a limited size, and a longer one alone', async () => {
    const bodies = [10, 3_000, 20, 900, 900, 30].map((length) => 'x'.repeat(length));
    for (const body of bodies) await addAnswer({ answer: sealedBy(OLD, body) });
    const all = await answersAfter(null, 1_000);
    const sizes: number[] = [];
    const found: string[] = [];
    for (let page = await answersAfter(null, 1_000, 1_000); page.length > 0; ) {
      found.push(...page.map(({ digest }) => digest));
      const bytes = page.reduce((sum, { sealed }) => sum + (sealed?.length ?? 0), 0);
      sizes.push(bytes);
      expect(page.length === 1 || bytes <= 1_000).toBe(true);
      page = await answersAfter(page.at(-1)?.digest ?? null, 1_000, 1_000);
    }
    expect(found).toEqual(all.map(({ digest }) => digest));
    expect(Math.max(...sizes)).toBeGreaterThan(3_000);
  });

  it('of devices have the time at which their key ends', async () => {
    const id = newId();
    const graceUntil = 7_000;
    await backend().store.actors.commit([
      deviceCommit({
        id,
        rows: [
          key(id, 1, sealedBy(OLD)),
          key(id, 2, sealedBy(OLD)),
          { type: 'key.grace', deviceId: id, keyVersion: 1, graceUntil },
        ],
      }),
    ]);
    const ends = async () => {
      const all = await values().deviceSecrets({ deviceId: id, keyVersion: 0 }, 2);
      return all.map(({ expiresAt }) => expiresAt);
    };
    expect(await ends()).toEqual([graceUntil, null]);
  });

  it('are replaced only if they have not changed since', async () => {
    const [id, other] = [await addKeys(sealedBy(OLD)), await addKeys(sealedBy(OLD, 'other'))];
    const change = (deviceId: string, from: string) => ({ deviceId, keyVersion: 1, from, to: sealedBy(NEW) });
    expect(await values().replaceSecrets([])).toBe(0);
    expect(await values().replaceSecrets([change(id, sealedBy(OLD)), change(other, sealedBy(OLD))])).toBe(1);
    expect(await values().replaceSecrets([change(id, sealedBy(OLD))])).toBe(0);
    expect([await secretOf(id), await secretOf(other)]).toEqual([sealedBy(NEW), sealedBy(OLD, 'other')]);

    const row = await addAnswer({ answer: sealedBy(OLD) });
    const { digest = '' } = (await answersAfter(null, 1_000)).find((one) => one.principal === row.principal) ?? {};
    expect(await values().replaceAnswers([{ digest, from: 'another', to: sealedBy(NEW) }])).toBe(0);
    expect(await values().replaceAnswers([{ digest, from: sealedBy(OLD), to: sealedBy(NEW) }])).toBe(1);
    expect(await backend().store.idempotency.find(row)).toEqual({ ...row, answer: sealedBy(NEW) });
  });

  it('that name another master key are counted, without expired answers and ended keys', async () => {
    const [lost, now] = [newId().slice(-11).replace('-', '_'), Date.now()];
    const before = await values().withOtherKeys([OLD, NEW], now);
    await addKeys(sealedBy(lost), sealedBy(NEW));
    await addKeys(null);
    await addAnswer({ answer: sealedBy(lost), expiresAt: now + 1_000 });
    await addAnswer({ answer: sealedBy(lost), expiresAt: now - 1_000 });
    const ended = newId();
    await backend().store.actors.commit([
      deviceCommit({
        id: ended,
        rows: [
          key(ended, 1, sealedBy(lost)),
          key(ended, 2, sealedBy(lost)),
          { type: 'key.grace', deviceId: ended, keyVersion: 1, graceUntil: now - 1_000 },
          { type: 'keys.end', deviceId: ended, at: now - 500, status: 'revoked', except: [1] },
        ],
      }),
    ]);
    const found = await values().withOtherKeys([OLD, NEW], now);
    expect(found.filter(({ keyId }) => keyId === lost)).toEqual([
      { kind: 'device_secrets', keyId: lost, rows: 1 },
      { kind: 'stored_answers', keyId: lost, rows: 1 },
    ]);
    expect(await values().withOtherKeys([OLD, NEW, lost], now)).toEqual(before);
  });

  it('of commands with a timer, and of plans that are not over, are counted by form and key', async () => {
    const used = newId().slice(-11).replace('-', '_');
    const timed = (live: JsonObject) => {
      const id = newId();
      return commandCommit({
        id,
        live,
        timers: { set: [{ ref: { kind: 'command', id }, id: 't', event: 't', dueAt: 5_000 }] },
      });
    };
    const [sealedParams, sealedCompensation] = [`s2.${used}.params`, `s2.${used}.compensation`];
    const steps = [{ sealedParams, sealedCompensation }, { sealedParams: null }, {}];
    await backend().store.actors.commit([
      timed({ sealedParams }),
      timed({ sealedParams: null }),
      timed({}),
      commandCommit({ live: { sealedParams } }),
      planCommit({ live: { steps } }),
      planCommit({ live: { steps }, columns: { over: true } }),
      planCommit({ live: {} }),
    ]);
    const counted = await values().parameters();
    expect(counted.filter(({ prefix }) => prefix.endsWith(used))).toEqual([{ prefix: `s2.${used}`, rows: 3 }]);
    const others = await values().withOtherKeys([OLD, NEW], 0);
    expect(others.filter(({ keyId }) => keyId === used)).toEqual([
      { kind: 'command_parameters', keyId: used, rows: 3 },
    ]);
    expect((await values().withOtherKeys([OLD, NEW, used], 0)).filter(({ keyId }) => keyId === used)).toEqual([]);
  });

  it('and other rows are counted', async () => {
    const before = await values().count();
    await addKeys(sealedBy(OLD), null);
    await addAnswer({ answer: sealedBy(OLD) });
    expect(await values().count()).toBe(before + 3);
  });
});
