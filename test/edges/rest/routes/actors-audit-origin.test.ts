import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import type { HttpService } from '../../../support/http-service.ts';
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

interface Entry {
  by: string;
  key: string | null;
  action: string;
  subject: string;
  outcome: string;
  address: string | null;
  client: string | null;
  count: number;
}

const entries = async (query = ''): Promise<Entry[]> => (await mine.call('GET', `/audit${query}`)).body.entries;
const failures = (count: number) =>
  eventually(async () => {
    const found = await entries('?action=signIn');
    return found.length >= count ? found : null;
  });
/** Ends the minute in which repetitions are counted. */
async function endMinute(): Promise<void> {
  service.clock.advance(60_001);
}
const browser = { 'user-agent': 'Browser/1.0' };
const origin = { address: '127.0.0.1', client: 'Browser/1.0', outcome: 'done', count: 1 };

describe('an audit entry', () => {
  it('has the address and the client of the request, the latter cleaned and bounded', async () => {
    await mine.call('POST', '/homes', { home_name: 'Cabin' }, { headers: browser });
    expect((await entries('?limit=1'))[0]).toMatchObject({ action: 'createHome', ...origin });
    const sent = `\u009b31m${'x'.repeat(400)}`;
    await mine.call('POST', '/homes', { home_name: 'Cabin' }, { headers: { 'user-agent': sent } });
    const { client } = (await entries('?limit=1'))[0] as Entry;
    expect(client).toMatch(/^31mx{190,}$/);
    expect(client?.length).toBeLessThanOrEqual(200);
  });

  it('of a refusal has them too', async () => {
    await mine.call('GET', '/audit', undefined, { token: mine.tokens.viewer, headers: browser });
    const [refused] = await eventually(async () => {
      const found = await entries('?action=listAudit');
      return found.length > 0 ? found : null;
    });
    expect(refused).toMatchObject({ ...origin, outcome: 'FORBIDDEN_ROLE' });
  });

  it('of an action on an actor has none, because it is in the journal', async () => {
    await mine.register();
    expect((await entries('?limit=1'))[0]).toMatchObject({
      ...{ action: 'registerDevice', address: null, client: null, count: 1 },
    });
  });
});

describe('a ticket, a sign-in link, a sign-in and a sign-out', () => {
  it('are audited with address and client, and without what they issue', async () => {
    const owner = { token: mine.tokens.owner, headers: browser };
    const { body: ticket } = await service.call('POST', '/ws/ticket', { ...owner, body: {} });
    const { body: link } = await mine.call('POST', '/auth/link', {}, { headers: browser });
    const code = new URL(link.url).hash.slice('#sign-in='.length);
    const opened = await service.call('POST', '/v1/auth/session', { body: { token: code }, headers: browser });
    expect(opened.status).toBe(204);
    await mine.call('POST', '/auth/logout', {}, { headers: browser });
    const admin = { token: mine.tokens.admin };
    const found: Entry[] = (await mine.call('GET', '/audit?limit=200', undefined, admin)).body.entries;
    const subject = `user:${mine.userId}`;
    for (const action of ['createWsTicket', 'createSignInLink', 'openCookieSession', 'logout'])
      expect(found).toContainEqual(expect.objectContaining({ ...origin, by: mine.userId, action, subject }));
    const text = JSON.stringify(found);
    for (const secret of [ticket.ticket, code, mine.tokens.owner]) expect(text).not.toContain(secret);
  });
});

describe('a read of a platform operator', () => {
  const read = (path: string) => service.call('GET', path, { token: operator, headers: browser });

  it('in a tenant is in the audit of that tenant', async () => {
    const tenant = `tenant_id=${mine.tenantId}`;
    await mine.call('GET', '/actors');
    for (const path of [`/v1/actors?${tenant}`, `/v1/audit?${tenant}`, `/v1/overview?${tenant}`]) {
      expect((await read(path)).status).toBe(200);
    }
    expect((await read(`/v1/actors/tenant/${mine.tenantId}?${tenant}`)).status).toBe(200);
    const found = (await entries()).filter(({ by }) => by !== mine.userId);
    expect(found.map(({ action }) => action).sort()).toEqual(['getActor', 'getOverview', 'listActors', 'listAudit']);
    for (const entry of found) expect(entry).toMatchObject(origin);
    expect((await entries('?action=listActors')).map(({ by }) => by)).not.toContain(mine.userId);
  });

  it('over all tenants is in the audit of the service', async () => {
    await read('/v1/admin/tenants');
    const found = (await read('/v1/audit?platform=true')).body.entries as Entry[];
    expect(found.filter(({ action }) => action === 'listTenants')[0]).toMatchObject({ ...origin, subject: 'service' });
  });

  it.each(['/v1/audit', '/v1/audit/export', '/v1/audit/verify'])(
    'of the audit of the service with %s is in that audit, whether the operator has a tenant or not',
    async (path) => {
      const action = { '/v1/audit': 'listAudit', '/v1/audit/export': 'exportAudit' }[path] ?? 'verifyAudit';
      const [sub, withTenant] = [v7(), v7()];
      const member = await service.call('GET', '/v1/auth/me', { token: await service.token(withTenant) });
      await service.updateUser(member.body.user.id, { tenantId: mine.tenantId, role: 'admin' });
      for (const one of [sub, withTenant]) {
        const token = await service.token(one, { scope: 'platform:admin' });
        const { id } = (await service.call('GET', '/v1/auth/me', { token })).body.user;
        const answer = await fetch(`${service.url}${path}?platform=true`, {
          headers: { authorization: `Bearer ${token}`, ...browser },
        });
        expect(answer.status).toBe(200);
        await answer.text();
        const found = (await read(`/v1/audit?platform=true&by=${id}&action=${action}`)).body.entries as Entry[];
        expect(found).toMatchObject([{ ...origin, subject: 'service' }]);
        expect(await entries(`?by=${id}&action=${action}`)).toEqual([]);
      }
    },
  );

  it('is written once a minute when it is repeated, then with the number of repetitions', async () => {
    const repeat = async () => read(`/v1/overview?tenant_id=${mine.tenantId}`);
    for (let n = 0; n < 5; n++) await repeat();
    expect(await entries('?action=getOverview')).toHaveLength(1);
    await endMinute();
    await repeat();
    const found = await eventually(async () => {
      const rows = await entries('?action=getOverview');
      return rows.length === 3 ? rows : null;
    });
    expect(found.map(({ count }) => count).sort()).toEqual([1, 1, 4]);
  });

  it('is refused if it cannot be audited', async () => {
    const { append } = service.store.audit;
    service.store.audit.append = async () => {
      throw new Error('no');
    };
    const { status, body } = await read(`/v1/actors/tenant/${mine.tenantId}?tenant_id=${mine.tenantId}`);
    service.store.audit.append = append;
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toContain(mine.userId);
  });
});

describe('a failed sign-in', () => {
  const trySignIn = (token: string) => service.call('GET', '/v1/homes', { token, headers: browser });
  const UNKNOWN = { status: 401, code: 'UNAUTHENTICATED' };
  const answerTo = async (token: string) => {
    const { status, body } = await trySignIn(token);
    const { request_id: _, ...rest } = body;
    return { status, ...rest };
  };

  it('with a known key is audited: a wrong secret, a revoked key', async () => {
    const { prefix } = (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes: ['all'] })).body;
    const other = (await mine.call('POST', '/auth/api-keys', { name: 'o', scopes: ['all'] })).body;
    const wrong = `tk_${prefix}_${'A'.repeat(43)}`;
    const refused = await answerTo(wrong);
    const unknownKey = await answerTo(wrong.replace(prefix, 'zzzzzzzz'));
    expect(refused).toMatchObject(UNKNOWN);
    expect(unknownKey).toEqual(refused);
    await mine.call('POST', '/auth/api-keys/revoke', { prefix: other.prefix });
    expect(await answerTo(other.key)).toEqual(refused);
    const found = await failures(2);
    expect(found.map((entry) => entry.key).sort()).toEqual([prefix, other.prefix].sort());
    const ofRevoked = found.find((entry) => entry.key === other.prefix);
    expect(ofRevoked).toMatchObject({
      ...{ by: mine.userId, subject: `key:${other.prefix}`, outcome: 'UNAUTHENTICATED' },
      ...{ address: '127.0.0.1', client: 'Browser/1.0', count: 1 },
    });
    expect(JSON.stringify(found)).not.toContain(other.key);
  });

  it('of a known user is audited: an expired token, a token after the sign-out', async () => {
    const { sub, userId } = await member();
    const expired = await service.token(sub, { ttlS: 60 });
    const ended = await service.token(sub);
    await service.call('POST', '/v1/auth/logout', { token: ended, body: {} });
    service.clock.advance(120_000);
    for (const token of [expired, ended]) expect(await answerTo(token)).toMatchObject(UNKNOWN);
    const [first] = await failures(1);
    expect(first).toMatchObject({ by: userId, subject: `user:${userId}`, outcome: 'UNAUTHENTICATED' });
  });

  it('of an unknown user is not audited: a forged signature, an unknown subject', async () => {
    const { sub } = await member();
    const token = await service.token(sub, { ttlS: 60 });
    const unknown = await service.token('an unknown user', { ttlS: 60 });
    service.clock.advance(120_000);
    const [head, , signature] = token.split('.');
    const claims = { iss: 'urn:twinkeep', aud: 'twinkeep', sub, exp: 1, iat: 0 };
    const forged = `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
    for (const credential of [forged, unknown, 'x']) expect(await answerTo(credential)).toMatchObject(UNKNOWN);
    // Later failures are audited in the order in which they occurred.
    await answerTo(token);
    expect(await failures(1)).toHaveLength(1);
  });

  it('is written twice a minute at most: the first one, and the number of the others', async () => {
    const { key, prefix } = (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes: ['all'] })).body;
    await mine.call('POST', '/auth/api-keys/revoke', { prefix });
    for (let n = 0; n < 20; n++) await answerTo(key);
    expect(await failures(1)).toHaveLength(1);
    await endMinute();
    await answerTo(key);
    expect((await failures(3)).map(({ count }) => count).sort((a, b) => a - b)).toEqual([1, 1, 19]);
  });

  async function member(): Promise<{ sub: string; userId: string }> {
    const sub = v7();
    const { body } = await service.call('GET', '/v1/auth/me', { token: await service.token(sub) });
    await service.updateUser(body.user.id, { tenantId: mine.tenantId, role: 'user' });
    return { sub, userId: body.user.id };
  }
});
