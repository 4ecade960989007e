import { v4, v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { routes } from '../../../../src/edges/rest/routes.ts';
import { StoreUnavailable } from '../../../../src/store/contract.ts';
import { browserAt } from '../../../support/browser.ts';
import { around, issue, makeAuthority } from '../../../support/certificates.ts';
import { eventually } from '../../../support/clock.ts';
import { firmwareTestKey } from '../../../support/firmware-key.ts';
import type { CallOptions, CallResult, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let operator: string;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  operator = await service.token(v7(), { scope: 'platform:admin' });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const audit = (query = '', sent?: CallOptions): Promise<CallResult> =>
  mine.call('GET', `/audit${query}`, undefined, sent);
const entries = async (query = '', sent?: CallOptions) => (await audit(query, sent)).body.entries;
/** Audit entries of refusals are written asynchronously. */
const refusals = (count: number, query = '') =>
  eventually(async () => {
    const found = (await entries(query)).filter(({ outcome }: { outcome: string }) => outcome !== 'done');
    return found.length >= count ? found : null;
  });

describe('an audit entry of an action', () => {
  it('on a record exists with the response, and has user, credential and request', async () => {
    const made = await mine.call('POST', '/homes', { home_name: 'Cabin' }, { headers: { 'x-request-id': v4() } });
    expect((await entries('?limit=1'))[0]).toEqual({
      at: new Date(service.clock.now()).toISOString(),
      ...{ by: mine.userId, key: null, via: 'rest', action: 'createHome', subject: `home:${made.body.id}` },
      ...{ outcome: 'done', request_id: made.headers.get('x-request-id') },
      ...{ address: '127.0.0.1', client: 'node', count: 1, subject_name: 'Cabin' },
    });
  });

  it('has the name of its subject while that exists, and never one of another tenant', async () => {
    const { device_id: id } = await mine.register({ name: 'Lamp' });
    await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    const nameOf = async (query: string) => (await entries(query))[0]?.subject_name;
    expect(await nameOf('?action=commandDevice')).toBe('turn_on');
    expect(await nameOf('?action=registerDevice')).toBe('Lamp');
    await mine.call('PATCH', `/devices/${id}`, { name: 'Desk lamp' });
    expect(await nameOf('?action=registerDevice')).toBe('Desk lamp');
    const { body: board } = await mine.call('POST', '/dashboards', { name: 'Hallway' });
    const { body: group } = await mine.call('POST', '/groups', { name: 'First floor' });
    expect(await nameOf('?action=createDashboard')).toBe('Hallway');
    expect(await nameOf(`?subject=group:${group.slug}`)).toBe('First floor');
    await mine.call('DELETE', `/dashboards/${board.dashboard.id}`);
    expect(await nameOf('?action=createDashboard')).toBeNull();
    const other = await makeTestTenant(service);
    const foreign = await other.register({ name: 'Secret lamp' });
    const { device_id: unnamed } = await other.register();
    for (const target of [foreign.device_id, unnamed]) {
      await mine.call('DELETE', `/devices/${target}`, undefined, { token: mine.tokens.viewer });
    }
    const refused = await refusals(2);
    expect(refused.map(({ subject }: { subject: string }) => subject)).toContain(`device:${foreign.device_id}`);
    for (const { subject_name } of refused) expect(subject_name).toBeNull();
  });

  it('has the names of device CAs, firmware releases and firmware keys', async () => {
    const authority = makeAuthority(around(service.clock.now()));
    const { body: proof } = await mine.call('POST', '/cas/verifications');
    const ca = await mine.call('POST', '/cas', {
      ...{ name: 'Plant 1', certificate: authority.pem },
      verification_certificate: issue(authority, proof.verification_code).pem,
    });
    const release = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version: '1.2.0' });
    const key = await mine.call('POST', '/firmware/signing/keys', {
      ...{ name: 'Build server', public_key: firmwareTestKey().publicKey },
    });
    expect([ca.status, release.status, key.status]).toEqual([201, 201, 201]);
    const names = Object.fromEntries(
      (await entries()).map((one: { action: string; subject_name: string }) => [one.action, one.subject_name]),
    );
    expect(names).toMatchObject({
      registerCa: 'Plant 1',
      createRelease: 'smart_light 1.2.0',
      addFirmwareKey: 'Build server',
    });
  });

  it('on an actor comes from its journal, in the same form', async () => {
    const { device_id: id } = await mine.register();
    const command = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    const [first, second] = await entries();
    expect(first).toMatchObject({
      ...{ by: mine.userId, via: 'rest', action: 'commandDevice', subject: `command:${command.body.command_id}` },
      ...{ outcome: 'done', request_id: command.headers.get('x-request-id') },
    });
    expect(second).toMatchObject({ action: 'registerDevice', subject: `device:${id}` });
  });

  it('with a key has its prefix', async () => {
    const { key, prefix } = (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes: ['all'] })).body;
    await mine.call('POST', '/homes', { home_name: 'Cabin' }, { token: key });
    expect(await entries('?limit=2')).toMatchObject([
      { action: 'createHome', key: prefix, by: mine.userId },
      { action: 'createApiKey', key: null, subject: `key:${prefix}` },
    ]);
    expect(JSON.stringify((await audit()).body)).not.toContain(key);
  });

  it('does not exist for actions of devices and timers', async () => {
    const { device_id: id } = await mine.register();
    const { body } = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on', ttl_s: 60 });
    await mine.connect(id);
    await mine.acknowledge(id, body.command_id, 'succeeded');
    expect((await entries()).filter(({ subject }: { subject: string }) => subject.startsWith('command'))).toHaveLength(
      1,
    );
  });

  it('exists once for repeated idempotent requests', async () => {
    const headers = { 'idempotency-key': v4() };
    for (let n = 0; n < 3; n++) await mine.call('POST', '/homes', { home_name: 'Cabin' }, { headers });
    expect((await entries()).filter(({ action }: { action: string }) => action === 'createHome')).toHaveLength(2);
  });

  it('needs no additional row and no additional query for a command', async () => {
    const { device_id: id } = await mine.register();
    const { append } = service.store.audit;
    let appended = 0;
    service.store.audit.append = (rows) => {
      appended++;
      return append(rows);
    };
    for (let n = 0; n < 3; n++) await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    await mine.report(id, { on: true });
    await mine.call('GET', '/devices');
    service.store.audit.append = append;
    expect(appended).toBe(0);
  });

  it('is stored before the response', async () => {
    const { append } = service.store.audit;
    let away = true;
    service.store.audit.append = async (rows) => {
      if (away) throw new StoreUnavailable('away');
      return append(rows);
    };
    let answered = false;
    const requested = mine.call('POST', '/homes', { home_name: 'Cabin' }).then((answer) => {
      answered = true;
      return answer;
    });
    await eventually(async () => (await mine.call('GET', '/homes')).body.homes.length === 2);
    expect(answered).toBe(false);
    away = false;
    const { status, body } = await requested;
    service.store.audit.append = append;
    expect(status).toBe(201);
    expect(await entries('?limit=1')).toMatchObject([{ subject: `home:${body.id}` }]);
  });

  it('by a platform operator is visible to the affected tenant, on the service to operators only', async () => {
    service.clock.advance(1);
    await service.call('POST', `/v1/admin/tenants/${mine.tenantId}/tier`, { token: operator, body: { tier: 'pro' } });
    await service.call('POST', '/v1/admin/flags/cognition_disabled', { token: operator, body: { state: false } });
    expect(await entries('?limit=1')).toMatchObject([{ action: 'setTier', subject: `tenant:${mine.tenantId}` }]);
    expect((await entries('?platform=true&limit=1', { token: operator }))[0]).toMatchObject({
      ...{ action: 'setFlag', subject: 'flag:cognition_disabled', outcome: 'done' },
    });
    expect((await audit(`?platform=true&tenant_id=${mine.tenantId}`, { token: operator })).status).toBe(400);
    expect((await entries(`?tenant_id=${mine.tenantId}&limit=1`, { token: operator }))[0].action).toBe('setTier');
    expect((await audit('', { token: operator })).body.code).toBe('TENANT_REQUIRED');
    expect((await audit('?platform=true')).body.code).toBe('FORBIDDEN');
  });
});

describe('an audit entry of a refusal', () => {
  it('for role, scope or person has its code and its subject', async () => {
    const { device_id: id } = await mine.register();
    const { key } = (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes: ['read:devices'] })).body;
    await mine.call('POST', `/device/${id}/rotate-secret`, {}, { token: mine.tokens.user });
    await mine.call('DELETE', `/homes/${mine.homeId}`, undefined, { token: key });
    await mine.call('GET', '/audit', undefined, { token: mine.tokens.viewer });
    const refused = await refusals(3);
    expect(refused.map(({ action, outcome, subject }: Record<string, string>) => [action, outcome, subject])).toEqual(
      expect.arrayContaining([
        ['rotateSecret', 'FORBIDDEN_ROLE', `device:${id}`],
        ['deleteHome', 'INSUFFICIENT_SCOPE', `home:${mine.homeId}`],
        ['listAudit', 'FORBIDDEN_ROLE', `tenant:${mine.tenantId}`],
      ]),
    );
  });

  it('for a missing CSRF token exists, as do those of the sign-in and the sign-out', async () => {
    const browser = browserAt(service.url);
    await browser.request('POST', '/v1/auth/session', { body: { token: mine.tokens.admin } });
    await browser.request('DELETE', `/v1/homes/${mine.homeId}`);
    const headers = { 'x-csrf-token': (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token };
    const { id } = (await browser.request('GET', '/v1/auth/me')).body.user;
    await browser.request('POST', '/v1/auth/logout', { body: {}, headers });
    await refusals(1);
    const notified = (await entries(`?by=${id}`)).map(({ action, outcome, subject }: Record<string, string>) =>
      [action, outcome, subject].join(' '),
    );
    expect(new Set(notified)).toEqual(
      new Set([
        `openCookieSession done user:${id}`,
        `deleteHome CSRF_FAILED home:${mine.homeId}`,
        `logout done user:${id}`,
      ]),
    );
  });

  it('of a confirmation exists, and a command that the gateway refused is in its journal', async () => {
    const { device_id: id } = await mine.register({ device_type: 'lock' });
    await mine.call('POST', `/device/${id}/command/confirm`, { dry_run_token: v4() });
    await mine.call('POST', `/device/${id}/command`, { action: 'rotate_key' });
    const refused = await refusals(2);
    expect(new Set(refused.map(({ outcome }: { outcome: string }) => outcome))).toEqual(
      new Set(['CONFIRMATION_FAILED', 'RESTRICTED_ACTION']),
    );
  });

  it('to a user who is not a platform operator is visible to their own tenant', async () => {
    await service.call('GET', '/v1/admin/tenants', { token: mine.tokens.owner });
    await audit(`?tenant_id=${v7()}`);
    expect((await refusals(2)).map(({ action }: { action: string }) => action).sort()).toEqual([
      'listAudit',
      'listTenants',
    ]);
  });

  it('contains nothing of a refused input', async () => {
    for (const path of ['/homes/not-an-id', '/homes/%00%0a', `/homes/${'x'.repeat(300)}`]) {
      await mine.call('DELETE', path, undefined, { token: mine.tokens.user });
    }
    const subjects = (await refusals(3)).map(({ subject }: { subject: string }) => subject);
    expect(new Set(subjects)).toEqual(new Set([`tenant:${mine.tenantId}`]));
  });

  it('does not exist for missing credentials and missing records', async () => {
    await service.call('GET', '/v1/audit');
    await mine.call('DELETE', `/homes/${v4()}`);
    await mine.call('GET', '/audit', undefined, { token: mine.tokens.viewer });
    expect((await refusals(1)).map(({ action }: { action: string }) => action)).toEqual(['listAudit']);
  });
});

describe('the audit list', () => {
  it('has the entries of both sources once in its pages, during concurrent writes', async () => {
    for (let n = 0; n < 5; n++) {
      await mine.register();
      await mine.call('POST', '/homes', { home_name: `Home ${n}` });
      if (n % 2) service.clock.advance(1);
    }
    const all = (await entries('?limit=200')).map(({ request_id }: { request_id: string }) => request_id);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { body } = await audit(`?limit=2${cursor}`);
      seen.push(...body.entries.map(({ request_id }: { request_id: string }) => request_id));
      cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`;
      await mine.call('POST', '/homes', { home_name: 'Later' });
    } while (cursor !== '');
    expect(seen).toEqual(all);
  });

  it('has filters, and cursors that are valid for these filters only', async () => {
    const { device_id: id } = await mine.register();
    await mine.call('PATCH', `/devices/${id}`, { name: 'a' });
    const from = new Date(service.clock.now()).toISOString();
    service.clock.advance(1_000);
    await mine.call('PATCH', `/devices/${id}`, { name: 'b' });
    expect(await entries(`?subject=device:${id}`)).toHaveLength(3);
    expect(await entries(`?subject=device:${id}&action=patchDevice`)).toHaveLength(2);
    expect(await entries(`?subject=device:${id}&to=${from}`)).toEqual([]);
    expect(await entries(`?action=patchDevice&from=${new Date(service.clock.now()).toISOString()}`)).toHaveLength(1);
    expect(await entries(`?by=${v7()}`)).toEqual([]);
    const { next_cursor } = (await audit('?limit=1')).body;
    expect((await audit(`?limit=1&action=patchDevice&cursor=${next_cursor}`)).status).toBe(400);
    expect((await audit('?from=2026-01-01')).status).toBe(400);
    expect((await audit('?by=me')).status).toBe(400);
  });

  it('of a tenant contains nothing of another', async () => {
    const other = await makeTestTenant(service);
    await other.call('POST', '/homes', { home_name: 'Theirs' });
    const ours = JSON.stringify(await entries('?limit=200'));
    expect(ours).not.toContain(other.userId);
    expect(ours).not.toContain(other.tenantId);
  });
});

describe('every operation that changes data', () => {
  const changing = routes.filter(({ operation }) => operation.changes).map(({ operation }) => operation);

  it('has a journal entry or an audit row', () => {
    expect(changing.filter(({ audit }) => audit === 'none')).toEqual([]);
  });
});
