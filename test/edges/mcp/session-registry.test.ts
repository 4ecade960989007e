import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { mcpClient } from '../../support/mcp.ts';
import { makeTestTenant } from '../../support/test-tenant.ts';
import {
  begin,
  INITIALIZE,
  listen,
  mine,
  open,
  sendRequest,
  service,
  WHOAMI,
  withMcpServices,
} from './mcp-requests.ts';

withMcpServices();

describe('a session', () => {
  it('belongs to its user with any of their tokens, and to no other user', async () => {
    await open();
    const session = await begin();
    expect((await sendRequest(WHOAMI, session)).status).toBe(200);
    const { body } = await mine.call('GET', '/auth/me');
    const fresh = await service.token(body.user.ext_id);
    expect((await sendRequest(WHOAMI, { ...session, authorization: `Bearer ${fresh}` })).status).toBe(200);
    const other = await makeTestTenant(service);
    for (const token of [mine.tokens.admin, other.tokens.owner]) {
      const answers = await Promise.all([
        sendRequest(WHOAMI, { ...session, authorization: `Bearer ${token}` }),
        sendRequest(undefined, { ...session, authorization: `Bearer ${token}` }, 'DELETE'),
        sendRequest(WHOAMI, { ...session, 'mcp-session-id': 'none', authorization: `Bearer ${token}` }),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
    }
    expect((await sendRequest(undefined, session, 'DELETE')).status).toBe(204);
    expect((await sendRequest(WHOAMI, session)).status).toBe(404);
  });

  it('has its stream closed when another credential was used later', async () => {
    await open();
    const session = await begin();
    const stream = await listen(session);
    await sendRequest(WHOAMI, session);
    expect(stream.ended).toBe(false);
    const { body } = await mine.call('GET', '/auth/me');
    const fresh = { ...session, authorization: `Bearer ${await service.token(body.user.ext_id)}` };
    expect((await sendRequest(WHOAMI, fresh)).status).toBe(200);
    await eventually(() => stream.ended);
    const again = await listen(fresh);
    await sendRequest(WHOAMI, fresh);
    expect([again.status, again.ended]).toEqual([200, false]);
    again.close();
  });

  it('ends when the node no longer serves its tenant, or the id of a user without one', async () => {
    await open();
    const alone = await service.token('alone');
    const authorization = `Bearer ${alone}`;
    const [own, withoutTenant] = [await begin(), await begin({ authorization })];
    const { body } = await service.call('GET', '/v1/auth/me', { token: alone });
    const statuses = async () => [
      (await sendRequest(WHOAMI, own)).status,
      (await sendRequest(WHOAMI, withoutTenant)).status,
    ];
    service.mcp.endTenants((id) => id !== mine.tenantId && id !== body.user.id);
    expect(await statuses()).toEqual([200, 200]);
    service.mcp.endTenants((id) => id === body.user.id);
    expect(await statuses()).toEqual([200, 404]);
    service.mcp.endTenants((id) => id === mine.tenantId);
    expect(await statuses()).toEqual([404, 404]);
  });

  it('serves two tenants concurrently, each with its own data', async () => {
    await open();
    const other = await makeTestTenant(service);
    const [a, b] = await Promise.all([
      mcpClient(service.url, mine.tokens.owner),
      mcpClient(service.url, other.tokens.owner),
    ]);
    const rounds = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? a : b).callTool({ name: 'list_homes' }));
    const homes = (await Promise.all(rounds)).map(
      ({ structuredContent }) => (structuredContent as { homes: { id: string }[] }).homes[0]?.id,
    );
    expect(homes).toEqual(rounds.map((_, n) => (n % 2 === 0 ? mine.homeId : other.homeId)));
    await Promise.all([a.close(), b.close()]);
  });

  it('ends after its idle timeout, unless it has an open stream', async () => {
    await open({ mcpLimits: { checkIntervalMs: 20, idleTimeoutMs: 60_000 } });
    const idle = await begin();
    const received = await begin();
    const stream = await listen(received);
    expect(stream.status).toBe(200);
    service.clock.advance(61_000);
    await eventually(() => service.mcp.counts().sessions === 1);
    expect((await sendRequest(WHOAMI, idle)).status).toBe(404);
    expect((await sendRequest(WHOAMI, received)).status).toBe(200);
    stream.close();
  });

  it('is one of a limited number: the oldest of the user is closed, or one of the user with the most', async () => {
    await open({ mcpLimits: { maxPerUser: 2, maxTotal: 3 } });
    const first = await begin();
    service.clock.advance(1);
    const second = await begin();
    service.clock.advance(1);
    const third = await begin();
    expect((await sendRequest(WHOAMI, first)).status).toBe(404);
    expect((await sendRequest(WHOAMI, second)).status).toBe(200);
    expect((await sendRequest(WHOAMI, third)).status).toBe(200);
    const stream = await listen(second);
    await begin();
    expect((await sendRequest(WHOAMI, second)).status).toBe(200);
    expect((await sendRequest(WHOAMI, third)).status).toBe(404);
    stream.close();
    const asAdmin = { authorization: `Bearer ${mine.tokens.admin}` };
    const admins = await begin(asAdmin);
    const users = await begin({ authorization: `Bearer ${mine.tokens.user}` });
    expect((await sendRequest(WHOAMI, second)).status).toBe(404);
    for (const session of [admins, users]) expect((await sendRequest(WHOAMI, session)).status).toBe(200);
    const full = await sendRequest(INITIALIZE, { authorization: `Bearer ${mine.tokens.viewer}` });
    expect([full.status, full.body.code, full.headers.get('retry-after')]).toEqual([503, 'OVERLOADED', '60']);
    expect((await listen({ authorization: `Bearer ${mine.tokens.viewer}` })).status).toBe(503);
    // A request without a session is still answered.
    expect((await sendRequest(WHOAMI, { authorization: `Bearer ${mine.tokens.viewer}` })).status).toBe(200);
  });

  it('is one of a limited number of its tenant, for all users together', async () => {
    await open({ mcpLimits: { maxPerTenant: 2 } });
    const as = (token: string) => ({ authorization: `Bearer ${token}` });
    const { owner, admin, user } = mine.tokens;
    const other = await begin(as((await makeTestTenant(service)).tokens.owner));
    const opened = [];
    for (const token of [owner, admin, user]) {
      opened.push(await begin(as(token)));
      service.clock.advance(1);
    }
    const found = [...opened, other].map(async (session) => (await sendRequest(WHOAMI, session)).status);
    expect(await Promise.all(found)).toEqual([404, 200, 200, 200]);
  });

  it('ends with its credential: a revoked key, a removed member', async () => {
    await open({ mcpLimits: { checkIntervalMs: 20 } });
    const { body: key } = await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['all'] });
    const byKey = { authorization: `Bearer ${key.key}` };
    const ofKey = await listen(await begin(byKey));
    const asViewer = { authorization: `Bearer ${mine.tokens.viewer}` };
    const legacy = await listen(asViewer);
    expect([ofKey.status, legacy.status]).toEqual([200, 200]);
    await mine.call('POST', '/auth/api-keys/revoke', { prefix: key.prefix });
    await eventually(() => ofKey.ended);
    expect(legacy.ended).toBe(false);
    const { body } = await service.call('GET', '/v1/auth/me', { token: mine.tokens.viewer });
    await mine.call('DELETE', `/tenant/members/${body.user.id}`);
    await eventually(() => legacy.ended);
    expect(service.mcp.counts().sessions).toBe(0);
  });

  it('is notified of a changed tool list when the role of its user changes', async () => {
    await open();
    const session = await begin({ authorization: `Bearer ${mine.tokens.viewer}` });
    const stream = await listen(session);
    const { body } = await service.call('GET', '/v1/auth/me', { token: mine.tokens.viewer });
    await mine.call('PATCH', `/tenant/members/${body.user.id}`, { role: 'user' });
    await eventually(() => stream.text.includes('notifications/tools/list_changed'));
    stream.close();
  });
});

describe('the legacy SSE transport', () => {
  it('is usable only with the credential that opened it', async () => {
    await open();
    const stream = await listen({});
    await eventually(() => stream.text.includes('endpoint'));
    const [, path = ''] = /data: (\/mcp\/messages\?session_id=\S+)/.exec(stream.text) ?? [];
    expect(path).not.toBe('');
    const { body } = await mine.call('GET', '/auth/me');
    const fresh = await service.token(body.user.ext_id);
    for (const token of [mine.tokens.admin, fresh]) {
      expect((await sendRequest(WHOAMI, { authorization: `Bearer ${token}` }, 'POST', path)).status).toBe(404);
    }
    const session = { 'mcp-session-id': path.split('=')[1] ?? '' };
    expect((await sendRequest(WHOAMI, session)).status).toBe(404);
    expect((await sendRequest(WHOAMI, {}, 'POST', path)).status).toBe(202);
    await eventually(() => stream.text.includes('"role":"owner"'));
    stream.close();
    await eventually(async () => (await sendRequest(WHOAMI, {}, 'POST', path)).status === 404);
  });
});
