import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { answerBinding } from '../../src/operations/idempotency.ts';
import { type CallResult, type HttpService, startHttpService } from '../support/http-service.ts';
import { mcpClient } from '../support/mcp.ts';
import type { MemoryStore } from '../support/memory-store.ts';

let service: HttpService<MemoryStore>;
let token: string;
let subject: string;
let homeId: string;
beforeEach(async () => {
  service = await startHttpService();
  ({ token } = await service.owner());
  subject = service.store.users.values().next().value?.sub ?? '';
  homeId = (await send(token, '/v1/homes', { home_name: 'One' })).body.id;
});
afterEach(() => service.close());

const send = (by: string, path: string, body: unknown = {}, key?: string) =>
  service.call('POST', path, { token: by, body, headers: key === undefined ? {} : { 'idempotency-key': key } });
const newKey = async (scopes: string[], by = token): Promise<{ key: string; prefix: string }> =>
  (await send(by, '/v1/auth/api-keys', { name: 'k', scopes })).body;
const register = (by: string, key?: string) =>
  send(by, '/v1/device/register', { device_type: 'door_lock', home_id: homeId }, key);
const replayed = ({ headers }: CallResult) => headers.get('idempotent-replayed');
const otherCredential = {
  status: 409,
  body: {
    code: 'CONFLICT',
    detail: 'This Idempotency-Key was used with another credential of yours. Use another key.',
  },
};
const replaysInAudit = async () =>
  (await service.call('GET', '/v1/audit?action=replayAnswer', { token })).body.entries.map(
    ({ key, via, subject, outcome }: Record<string, unknown>) => ({ key, via, subject, outcome }),
  );

describe('the answer to a request of a person', () => {
  it('is not for a key of theirs, which may not have it: the secret of a rotation or of a registration', async () => {
    expect((await service.call('PATCH', '/v1/tenant/policy', { token, body: { confirm_by: 'person' } })).status).toBe(
      200,
    );
    const registered = await register(token, 'register');
    const path = `/v1/device/${registered.body.device_id}/rotate-secret`;
    const rotated = await send(token, path, {}, 'rotate');
    expect([registered.body.device_secret, rotated.body.new_secret]).toEqual([expect.any(String), expect.any(String)]);
    const { key } = await newKey(['write:devices']);
    expect((await send(key, path)).body.code).toBe('DRY_RUN_REQUIRED');
    expect(await send(key, path, {}, 'rotate')).toMatchObject(otherCredential);
    expect((await register(token, 'register')).body.code).toBe('CONFLICT');
    expect((await send(token, path, {}, 'rotate')).body).toEqual(rotated.body);
    const second = await register(token, 'second');
    expect(await register(key, 'second')).toMatchObject(otherCredential);
    expect((await register(token, 'second')).body).toEqual(second.body);
  });

  it('is only for their tokens with its scopes: a new key has more than a restricted token may create', async () => {
    const restricted = () => service.token(subject, { scope: 'write:tenant' });
    const create = (by: string, scopes: string[], key?: string) =>
      send(by, '/v1/auth/api-keys', { name: 'k', scopes }, key);
    const created = await create(token, ['all'], 'create');
    expect(created.status).toBe(201);
    expect((await create(await restricted(), ['all'])).body.code).toBe('INSUFFICIENT_SCOPE');
    expect(await create(await restricted(), ['all'], 'create')).toMatchObject(otherCredential);
    expect(await create(await restricted(), ['read:tenant'], 'create')).toMatchObject(otherCredential);
    const again = await create(await service.token(subject), ['all'], 'create');
    expect([replayed(again), again.body]).toEqual(['true', created.body]);

    const narrow = await create(await restricted(), ['write:tenant'], 'narrow');
    expect(narrow.status).toBe(201);
    for (const by of [await restricted(), await service.token(subject, { scope: '*:tenant' }), token])
      expect((await create(by, ['write:tenant'], 'narrow')).body).toEqual(narrow.body);
  });

  it('is not for a token that was presented at /mcp', async () => {
    const registered = await register(token, 'k');
    const agent = await service.token(subject);
    await (await mcpClient(service.url, agent)).close();
    expect(await register(agent, 'k')).toMatchObject(otherCredential);
    expect((await register(token, 'k')).body).toEqual(registered.body);
    const ofAgent = await register(agent, 'agent');
    expect(ofAgent.status).toBe(201);
    expect((await register(agent, 'agent')).body).toEqual(ofAgent.body);
    expect(await register(token, 'agent')).toMatchObject(otherCredential);
  });

  it('with a secret is audited when it is shown', async () => {
    const { device_id } = (await register(token, 'k')).body;
    await send(token, `/v1/homes/${homeId}/rooms`, { name: 'Kitchen' }, 'k');
    expect(await replaysInAudit()).toEqual([]);
    await register(token, 'k');
    await register(token, 'k');
    const row = { key: null, via: 'rest', subject: `device:${device_id}`, outcome: 'done' };
    expect(await replaysInAudit()).toEqual([row]);
    const { prefix } = (await send(token, '/v1/auth/api-keys', { name: 'k', scopes: ['all'] }, 'c')).body;
    await send(token, '/v1/auth/api-keys', { name: 'k', scopes: ['all'] }, 'c');
    await send(token, `/v1/homes/${homeId}/rooms`, { name: 'Kitchen' }, 'k');
    expect(await replaysInAudit()).toEqual([{ ...row, subject: `key:${prefix}` }, row]);
  });
});

describe('the answer to a request with an API key', () => {
  it('is for that key only: not for another one, the one that replaced it, or its owner', async () => {
    const [first, other] = [await newKey(['write:devices']), await newKey(['all'])];
    const registered = await register(first.key, 'k');
    const again = await register(first.key, 'k');
    expect([replayed(again), again.body]).toEqual(['true', registered.body]);
    expect(await replaysInAudit()).toEqual([
      { key: first.prefix, via: 'rest', subject: `device:${registered.body.device_id}`, outcome: 'done' },
    ]);
    const { key: next } = (await send(token, '/v1/auth/api-keys/rotate', { prefix: first.prefix })).body;
    for (const by of [other.key, next, token]) expect(await register(by, 'k')).toMatchObject(otherCredential);
  });

  it('is not for a key over GraphQL either, after the request of a person', async () => {
    const query =
      'mutation ($i: RegisterDeviceInput!) { registerDevice(input: $i) { __typename ... on RegisterDeviceResult { deviceId deviceSecret } ... on Refused { code } } }';
    const mutate = (by: string) =>
      send(by, '/graphql', { query, variables: { i: { deviceType: 'door_lock', homeId } } }, 'k');
    const first = await mutate(token);
    expect(first.body.data.registerDevice.deviceSecret).toEqual(expect.any(String));
    expect((await mutate(token)).body).toEqual(first.body);
    const { key } = await newKey(['write:devices']);
    const { body } = await mutate(key);
    expect(JSON.stringify(body)).toContain('CONFLICT');
    expect(JSON.stringify(body)).not.toContain('deviceSecret":"');
  });
});

it('while the first request runs, another credential is refused without waiting', async () => {
  const { records } = service.store;
  const { insertHome } = records;
  const [started, finished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  records.insertHome = async (...args) => {
    started.resolve();
    await finished.promise;
    return insertHome.apply(records, args);
  };
  const { key } = await newKey(['all']);
  const create = (by: string, name = 'Two') => send(by, '/v1/homes', { home_name: name }, 'k');
  const first = create(token);
  await started.promise;
  expect(await create(key)).toMatchObject(otherCredential);
  expect(await create(key, 'Three')).toMatchObject(otherCredential);
  expect((await create(token)).headers.get('retry-after')).toBe('1');
  finished.resolve();
  expect((await first).status).toBe(201);
});

it('a request with another credential does not take over an interrupted one', async () => {
  const { device_id: id } = (await register(token)).body;
  const key = await newKey(['all']);
  const commands = { device_ids: [id], action: 'lock' };
  const running = await send(key.key, '/v1/devices/command', commands, 'k');
  expect(running.status).toBeLessThan(300);
  const [row] = [...service.store.idempotencyRows.values()];
  if (row === undefined) throw new Error('no row');
  await service.store.idempotency.put({ ...row, state: 'running', replaces: row.answer });
  expect(await send(token, '/v1/devices/command', commands, 'k')).toMatchObject(otherCredential);
});

describe('an answer that an earlier build has stored, which does not name the requester', () => {
  /** Rewrites the answer that was stored last as the build before stored it. */
  const asEarlier = async () => {
    const row = [...service.store.idempotencyRows.values()].at(-1);
    if (row === undefined) throw new Error('no row');
    const place = answerBinding(row);
    const { tenantId, body, bodyHash } = JSON.parse(service.services.open(row.answer, place));
    const answer = service.services.seal(JSON.stringify({ tenantId, body }), place);
    await service.store.idempotency.put({ ...row, bodyHash, answer, replaces: row.answer });
  };

  it('is for every credential of the user that is not restricted', async () => {
    const keys = [await newKey(['all']), await newKey(['write:homes'])];
    const create = (by: string, name = 'Two') => send(by, '/v1/homes', { home_name: name }, 'k');
    const home = await create(token);
    await asEarlier();
    const credentials = [token, await service.token(subject, { scope: '*:*' }), ...keys.map(({ key }) => key)];
    for (const by of credentials) {
      const again = await create(by);
      expect([again.status, replayed(again), again.body]).toEqual([201, 'true', home.body]);
    }
    expect((await create(keys[0]?.key ?? '', 'Three')).body.code).toBe('IDEMPOTENCY_MISMATCH');
    // It has no id of an audit row, so no repetition writes one.
    const { entries } = (await service.call('GET', `/v1/audit?subject=home:${home.body.id}`, { token })).body;
    expect(entries).toMatchObject([{ action: 'createHome' }]);
  });

  it('is not for a restricted key', async () => {
    const { device_id: id } = (await register(token)).body;
    const key = await newKey(['all']);
    const command = (by: string) => send(by, `/v1/device/${id}/command`, { action: 'lock' }, 'k');
    expect((await command(key.key)).status).toBe(202);
    await asEarlier();
    const create = { name: 'k', scopes: ['all'], restrict_to: { devices: [id], actions: ['unlock'] } };
    const restricted = (await send(token, '/v1/auth/api-keys', create)).body;
    expect(await command(restricted.key)).toMatchObject(otherCredential);
    expect(replayed(await command(token))).toBe('true');
  });

  it('is only for a person with all scopes if it has a secret', async () => {
    const { key } = await newKey(['all']);
    const registered = await register(key, 'k');
    expect(registered.body.device_secret).toEqual(expect.any(String));
    await asEarlier();
    expect(await register(key, 'k')).toMatchObject(otherCredential);
    expect(await register(await service.token(subject, { scope: '*:*' }), 'k')).toMatchObject(otherCredential);
    expect((await register(token, 'k')).body).toEqual(registered.body);
  });

  it('is only for a person with all scopes if it has a dry-run token', async () => {
    const { device_id: id } = (await register(token)).body;
    const { key } = await newKey(['all']);
    const command = (by: string) => send(by, `/v1/device/${id}/command`, { action: 'unlock' }, 'k');
    const previewed = await command(key);
    expect(previewed.body.dry_run_token).toEqual(expect.any(String));
    await asEarlier();
    expect(await command(key)).toMatchObject(otherCredential);
    expect((await command(token)).body.dry_run_token).toBe(previewed.body.dry_run_token);
  });
});
