import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { secretBinding } from '../../../../src/domain/device-key.ts';
import { keyId, makeSealer, type Sealer, sealedWith } from '../../../../src/domain/sealing.ts';
import { answerBinding } from '../../../../src/operations/idempotency.ts';
import { PLATFORM_SCOPE } from '../../../../src/services/tokens.ts';
import { runCliInProcess } from '../../../support/cli.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import { type MemoryNodes, secondNode } from '../../../support/memory-nodes.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];

let service: HttpService<MemoryStore>;
let mine: TestTenant;
let operator: string;

const sealWith = (sealer: Sealer): void => service.replaceSealer(sealer);
const rotated = () => makeSealer({ current: newKey, previous: oldKey });

const rekey = async (body: object = {}) =>
  (await service.call('POST', '/v1/admin/rekey', { token: operator, body })).body;
const runCli = (...args: string[]) => runCliInProcess(['rekey', ...args], { url: service.url, token: operator });
const secretOf = async (id: string): Promise<string> =>
  (await service.services.store.devices.keyHistory(id))[0]?.sealedSecret ?? '';

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  operator = await service.token('operator', { scope: PLATFORM_SCOPE });
});
afterAll(() => service.close());

const nodes = () => service.services.nodes as MemoryNodes;
const [oldId, newId] = [oldKey, newKey].map((key) => keyId(key)) as [string, string];

beforeEach(async () => {
  nodes().reset();
  sealWith(rotated());
  await rekey();
});

describe('POST /admin/rekey', () => {
  it('encrypts device secrets and stored answers with the current key, which stay what they were', async () => {
    sealWith(makeSealer({ current: oldKey }, () => false));
    const headers = { 'idempotency-key': 'before-the-rotation' };
    const body = { device_type: 'smart_light', home_id: mine.homeId };
    const first = await mine.call('POST', '/device/register', body, { headers });
    expect(first.status).toBe(201);
    const before = await secretOf(first.body.device_id);
    expect(sealedWith(before)?.form).toBe('s1');

    sealWith(rotated());
    const counted = await rekey({ dry_run: true });
    expect(counted).toMatchObject({ resealed: 0, continue_after: null, master_keys: { ...rotated().keyIds } });
    const previous = { key: 'previous', key_id: rotated().keyIds.previous, sub_key: false, rows: 1 };
    expect(counted.values).toEqual(
      expect.arrayContaining([
        { kind: 'device_secrets', ...previous },
        { kind: 'stored_answers', ...previous },
      ]),
    );
    expect(await secretOf(first.body.device_id)).toBe(before);

    const answer = await rekey();
    expect(answer).toMatchObject({ resealed: 2, unreadable: 0, continue_after: null });
    expect(answer.values.map((value: Record<string, unknown>) => [value.key, value.sub_key])).toEqual([
      ['current', true],
      ['current', true],
    ]);
    sealWith(makeSealer({ current: newKey }));
    expect(await mine.call('POST', '/device/register', body, { headers })).toMatchObject({
      status: 201,
      body: first.body,
    });
    expect(rotated().isCurrent(await secretOf(first.body.device_id))).toBe(true);
    expect(await rekey()).toMatchObject({ resealed: 0, unstored_until: null });
  });

  it('counts the parameters of waiting commands, which stay as they are until they are dropped', async () => {
    sealWith(makeSealer({ current: oldKey }));
    const { device_id: id } = await mine.register();
    const pin = { type: 'string', writeOnly: true };
    const capability = { action: 'set_code', paramSchema: { type: 'object', properties: { pin } } };
    const registered = await mine.call('PUT', `/devices/${id}/manifest`, { version: 1, capabilities: [capability] });
    const { change_id } = registered.body;
    if (change_id !== undefined) await mine.call('POST', `/change-requests/${change_id}/approve`, {});
    const sent = await mine.call('POST', `/device/${id}/command`, { action: 'set_code', params: { pin: '7391' } });
    expect(sent.status).toBe(202);

    sealWith(rotated());
    const parameters = ({ values }: { values: { kind: string }[] }) =>
      values.filter(({ kind }) => kind === 'command_parameters');
    const waiting = { kind: 'command_parameters', key: 'previous', key_id: oldId, sub_key: true, rows: 1 };
    await rekey();
    expect(parameters(await rekey())).toEqual([waiting]);
    expect(await runCli()).toMatchObject({ code: 1, stderr: expect.stringContaining('waiting commands') });
    await mine.call('POST', `/commands/${sent.body.command_id}/cancel`, {});
    expect(parameters(await rekey())).toEqual([]);
    expect(await runCli()).toMatchObject({ code: 0 });
  });

  it('continues where an answer ended, and refuses another beginning', async () => {
    const { device_id: id } = await mine.register();
    expect((await rekey({ after: 'stored_answers' })).values).toEqual([
      expect.objectContaining({ kind: 'stored_answers' }),
    ]);
    const after = `device_secrets:${id}:1`;
    expect(await rekey({ after })).toMatchObject({ total: null, continue_after: null });
    for (const wrong of ['', 'device_secrets', 'device_secrets:x:1', `device_secrets:${id}:0`, 'stored_answers:x']) {
      const refused = await service.call('POST', '/v1/admin/rekey', { token: operator, body: { after: wrong } });
      expect([wrong, refused.status]).toEqual([wrong, 400]);
    }
  });

  it('is refused, without a change, while a node cannot decrypt with the current key or has not reported its keys', async () => {
    sealWith(makeSealer({ current: oldKey }));
    const { device_id: id } = await mine.register();
    const sealed = await secretOf(id);
    sealWith(rotated());
    const cases = [
      [{ current: oldId, next: null, previous: null }, `does not have the master key ${newId}`],
      [null, 'has not reported its master keys'],
    ] as const;
    for (const [keys, problem] of cases) {
      nodes().reportKeys(secondNode, keys);
      expect(await service.call('POST', '/v1/admin/rekey', { token: operator, body: {} })).toMatchObject({
        status: 409,
        body: { code: 'CONFLICT', detail: expect.stringContaining(problem) },
      });
      expect(await secretOf(id)).toBe(sealed);
      expect(await rekey({ dry_run: true })).toMatchObject({
        other_nodes: [{ node_id: secondNode, address: 'node-2:8080', master_keys: keys }],
      });
      nodes().reset();
    }
  });

  it('names the nodes that encrypt with another key, although they decrypt with the current one', async () => {
    const keys = { current: oldId, next: newId, previous: null };
    nodes().reportKeys(secondNode, keys);
    expect((await rekey()).other_nodes).toEqual([{ node_id: secondNode, address: 'node-2:8080', master_keys: keys }]);
    nodes().reset();
    expect((await rekey()).other_nodes).toEqual([]);
  });

  it('examines long answers in several requests', async () => {
    const { sealedValues } = service.store;
    const answer = { principal: 'somebody', method: 'POST', path: '/', key: 'k', expiresAt: Number.MAX_SAFE_INTEGER };
    const sealed = rotated().seal('x'.repeat(2_000_000), answerBinding(answer));
    const asked: (string | null)[] = [];
    const answers = vi.spyOn(sealedValues, 'answers').mockImplementation(async (after) => {
      asked.push(after);
      const digest = String(asked.length).padStart(43, '0');
      return asked.length > 20 ? [] : [{ ...answer, digest, sealed }];
    });
    const first = await rekey({ after: 'stored_answers' });
    expect(first.continue_after).toMatch(/^stored_answers:0*\d+$/);
    expect(first.examined).toBeLessThan(20);
    const rest = await rekey({ after: first.continue_after });
    expect([first.examined + rest.examined, rest.continue_after]).toEqual([20, null]);
    answers.mockRestore();
  });

  it('leaves out keys that have ended, also those that no configured key decrypts', async () => {
    sealWith(makeSealer({ current: randomBytes(32) }));
    const { device_id: id } = await mine.register();
    expect((await mine.call('POST', `/device/${id}/revoke`)).status).toBe(200);
    service.store.idempotencyRows.clear();
    sealWith(rotated());
    const { values, unreadable } = await rekey();
    expect([values.filter(({ key }: { key: string }) => key === 'unknown'), unreadable]).toEqual([[], 0]);
  });

  it('does not encrypt a sub-key value with the master key, while another node already uses sub-keys', async () => {
    const { device_id: id } = await mine.register();
    const sealed = await secretOf(id);
    sealWith(makeSealer({ current: newKey, previous: oldKey }, () => false));
    expect(await rekey()).toMatchObject({ resealed: 0 });
    expect([sealedWith(sealed)?.form, await secretOf(id)]).toEqual(['s2', sealed]);
  });

  it('leaves what another node has encrypted with the next key', async () => {
    sealWith(makeSealer({ current: newKey }));
    const { device_id: id } = await mine.register();
    const sealed = await secretOf(id);
    sealWith(makeSealer({ current: oldKey, next: newKey }));
    expect((await rekey()).values).toContainEqual(expect.objectContaining({ kind: 'device_secrets', key: 'next' }));
    expect(await secretOf(id)).toBe(sealed);
  });

  it('answers 409 to a repeated request whose stored answer cannot be decrypted, and takes no effect again', async () => {
    sealWith(makeSealer({ current: randomBytes(32) }));
    const headers = { 'idempotency-key': 'under-a-lost-key' };
    const body = { device_type: 'smart_light', home_id: mine.homeId };
    const first = await mine.call('POST', '/device/register', body, { headers });
    sealWith(rotated());
    const again = await mine.call('POST', '/device/register', body, { headers });
    expect(again).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
    const lost = await rekey();
    expect(lost).toMatchObject({ resealed: 0, unreadable: 0 });
    expect(lost.values.filter(({ key }: { key: string }) => key === 'unknown')).toHaveLength(2);
    // As the device gets another secret, and the answer expires.
    const id = first.body.device_id;
    const to = rotated().seal('another secret', secretBinding(id, 1));
    await service.store.sealedValues.replaceSecrets([
      { ...{ deviceId: id, keyVersion: 1, to }, from: await secretOf(id) },
    ]);
    service.store.idempotencyRows.clear();
  });
});

describe('twinkeep rekey', () => {
  it('encrypts again, shows progress, and reports that the previous key is no longer needed', async () => {
    sealWith(makeSealer({ current: oldKey }));
    await mine.register();
    sealWith(rotated());
    const counted = await runCli('--dry-run');
    expect(counted.code).toBe(0);
    expect(counted.stderr).toContain(`MASTER_KEY_PREVIOUS (${rotated().keyIds.previous}) is still needed: 1 secrets`);
    const { code, stdout, stderr } = await runCli();
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^encrypting: \d+ of \d+ rows, 1 changed\n/)]);
    expect(stderr).toContain('encrypted again: 1\n');
    expect(stderr).toContain(
      `MASTER_KEY_PREVIOUS (${rotated().keyIds.previous}) is no longer needed for stored secrets.`,
    );
    expect(stderr).toContain('Until 2026-03-02T00:00:00.000Z browser sessions and artifact URLs may use it');
    expect(stdout.split('\n')[1]?.split(/ {2,}/).slice(0, 4)).toEqual([
      ...['device secrets', 'current', rotated().keyIds.current, 'yes'],
    ]);
    expect(JSON.parse((await runCli('--json')).stdout)).toMatchObject({ resealed: 0, unreadable: 0 });
  });

  it('does not report that the previous key is no longer needed while a node encrypts with it, and exits with 1', async () => {
    sealWith(rotated());
    nodes().reportKeys(secondNode, { current: oldId, next: newId, previous: null });
    const { code, stderr } = await runCli();
    expect(code).toBe(1);
    expect(stderr).toContain(`the node node-2:8080 has MASTER_KEY ${oldId}, not ${newId}\n`);
    expect(stderr).toContain(`MASTER_KEY_PREVIOUS (${oldId}) is still needed`);
    expect(stderr).toContain('nodes may still encrypt with another key');
    expect(stderr).not.toContain('no longer needed');
  });

  it('prints the number of secrets that a master key itself encrypts', async () => {
    sealWith(makeSealer({ current: newKey }, () => false));
    await mine.register();
    const { code, stderr } = await runCli();
    expect([code, stderr]).toEqual([0, expect.stringContaining('(SUB-KEY no), as by version 1.0.0: 1.')]);
    sealWith(rotated());
    expect((await runCli()).stderr).not.toContain('SUB-KEY no');
  });

  it('exits with 1 if its requests reach processes with different keys', async () => {
    const { sealedValues } = service.store;
    const { count } = sealedValues;
    let passes = 0;
    vi.spyOn(sealedValues, 'count').mockImplementation(() => {
      passes += 1;
      if (passes === 2) sealWith(makeSealer({ current: newKey }));
      return count();
    });
    sealWith(makeSealer({ current: oldKey, next: newKey }));
    await mine.register();
    expect(await runCli()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('different keys as MASTER_KEY'),
    });
  });

  it('exits with 1 while secrets name a key that the service does not have', async () => {
    sealWith(makeSealer({ current: oldKey }));
    await mine.register();
    sealWith(makeSealer({ current: newKey }));
    const { code, stderr } = await runCli();
    expect([code, stderr]).toEqual([1, expect.stringContaining('secrets whose master key is not configured: 1\n')]);
  });
});
