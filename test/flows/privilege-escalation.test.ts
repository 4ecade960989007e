import { hash, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { userCodeOf } from '../../src/services/handshakes.ts';
import {
  type AccessFixture,
  bearerRequester,
  cookieRequester,
  createApiKey,
  inviteMember,
  markAsAgentToken,
  type Requester,
  type Role,
  startAccessFixture,
} from '../support/access-fixture.ts';
import type { ApiResponse } from '../support/service.ts';

/*
 * Privilege escalation: every caller attempts everything above their rights, on every path. Each attempt is refused and
 * changes nothing.
 */

let stage: AccessFixture;
let { service, issuer, owner, member, lock, freshToken, webSocket } = {} as AccessFixture;
beforeAll(async () => {
  stage = await startAccessFixture();
  ({ service, issuer, owner, member, lock, freshToken, webSocket } = stage);
});
afterAll(() => stage.close());

const sentMessages = ({ status, body }: Pick<ApiResponse, 'status' | 'body'>) => [status, body.code];

/** Everything that only a person may change; equal before and after the attempts. */
async function whatPersonsChange() {
  const [members, keys, policy] = await Promise.all(
    ['/v1/tenant/members?limit=200', '/v1/auth/api-keys?limit=200', '/v1/tenant/policy'].map((path) => owner.get(path)),
  );
  const shown = (entry: Record<string, unknown>) => ({ ...entry, last_used_at: null });
  return { members: members?.body.members, keys: keys?.body.keys.map(shown), policy: policy?.body };
}

describe('an operation reserved for a person', () => {
  /** Every credential that an owner could hold, except the owner's own sign-in. */
  async function noPersons(): Promise<Requester[]> {
    const who = member.owner;
    const [all, wild, write] = [
      await createApiKey(who),
      await createApiKey(who, { scopes: ['*:*'] }),
      await createApiKey(who, { scopes: ['write:tenant'] }),
    ];
    const [agents, opened, later] = [
      await freshToken(who),
      await freshToken(who),
      await freshToken(who, { scope: '*:*' }),
    ];
    const external = await issuer.token({
      sub: 'agent',
      jti: randomUUID(),
      email: 'agent@example.com',
      email_verified: true,
    });
    const session = await cookieRequester(service, 'a cookie session whose token an agent presented later', opened);
    for (const token of [agents, opened, later]) await markAsAgentToken(service, token);
    const { body } = await owner.post('/v1/tenant/members', { email: 'agent@example.com', role: 'owner' });
    expect((await service.api(external).post(`/v1/auth/invitations/${body.member.id}/accept`)).status).toBe(200);
    await markAsAgentToken(service, external);
    return [
      bearerRequester(service, 'a key with all that its maker may', all.key),
      bearerRequester(service, 'a key with every scope', wild.key),
      bearerRequester(service, 'a key with the very scope', write.key),
      bearerRequester(service, 'a token that an agent presented', agents),
      bearerRequester(service, 'an external token that an agent presented', external),
      session,
      bearerRequester(service, 'a token with the scope that an agent presented', later),
    ];
  }

  it('is refused to every other credential', async () => {
    const victim = await createApiKey(owner);
    const open = (await owner.post('/v1/tenant/members', { email: 'x@example.com', role: 'viewer' })).body.member;
    const actors = await noPersons();
    const before = await whatPersonsChange();
    const roads: [string, string, unknown?][] = [
      ['POST', '/v1/auth/api-keys', { name: 'another', scopes: ['all'] }],
      ['POST', '/v1/auth/api-keys', { name: 'narrow', scopes: ['read:devices'] }],
      ['POST', '/v1/auth/api-keys/rotate', { prefix: victim.prefix }],
      ['POST', '/v1/auth/api-keys/revoke', { prefix: victim.prefix }],
      ['POST', '/v1/tenant/members', { email: 'friend@example.com', role: 'owner' }],
      ['PATCH', `/v1/tenant/members/${member.viewer.userId}`, { role: 'owner' }],
      ['PATCH', `/v1/tenant/members/${open.id}`, { role: 'owner' }],
      ['DELETE', `/v1/tenant/members/${member.viewer.userId}`],
      ['DELETE', `/v1/tenant/members/${open.id}`],
      ['PATCH', '/v1/tenant/policy', { confirm_by: 'requester' }],
      ['PATCH', '/v1/tenant/policy', { confirm_ttl_s: 86_400 }],
      ['POST', '/v1/auth/cli/approve', { code: 'A'.repeat(43), user_code: 'ABCDEF' }],
      ['POST', `/v1/auth/invitations/${open.id}/accept`],
    ];
    for (const actor of actors) {
      for (const [method, path, body] of roads) {
        for (const root of [path, path.replace('/v1', '/api/v1')]) {
          const answer = await actor.request(method, root, body);
          expect([actor.name, method, root, ...sentMessages(answer)]).toEqual([
            actor.name,
            method,
            root,
            403,
            'FORBIDDEN',
          ]);
        }
      }
      expect((await actor.request('GET', '/v1/auth/me')).status, actor.name).toBe(200);
    }
    expect(await whatPersonsChange()).toEqual(before);
  });

  it('cannot be reached with a key: it opens no session, and its ticket is not accepted as a credential', async () => {
    const { key } = await createApiKey(member.owner);
    const session = await service.api().post('/v1/auth/session', { token: key });
    expect(sentMessages(session)).toEqual([403, 'FORBIDDEN']);
    expect(session.headers.getSetCookie()).toEqual([]);
    const { ticket } = (await service.api(key).post('/ws/ticket')).body;
    expect((await service.api(ticket).get('/v1/auth/me')).status).toBe(401);
  });

  it('cannot be reached with a token of an agent: not by a session, nor by the CLI handshake', async () => {
    const token = await freshToken(member.owner);
    await markAsAgentToken(service, token);
    expect(sentMessages(await service.api().post('/v1/auth/session', { token }))).toEqual([403, 'FORBIDDEN']);
    // A second token of the same user is independent.
    const other = service.api(await freshToken(member.owner));
    expect((await other.post('/v1/auth/api-keys', { name: 'mine', scopes: ['all'] })).status).toBe(201);
  });
});

describe('a role', () => {
  const roles: Role[] = ['viewer', 'user', 'admin', 'owner'];
  const below = (role: Role) => roles.slice(0, roles.indexOf(role));

  it('cannot change anything above it, in person or with a key', async () => {
    const victim = await createApiKey(owner);
    const roads: [Role, string, string, unknown?][] = [
      ['admin', 'GET', '/v1/tenant/members'],
      ['admin', 'POST', '/v1/tenant/members', { email: 'friend@example.com', role: 'viewer' }],
      ['admin', 'DELETE', `/v1/tenant/members/${member.admin.userId}`],
      ['owner', 'DELETE', `/v1/tenant/members/${member.owner.userId}`],
      ['owner', 'POST', '/v1/tenant/members', { email: 'friend@example.com', role: 'owner' }],
      ['admin', 'POST', '/v1/auth/api-keys/revoke', { prefix: victim.prefix }],
      ['admin', 'POST', '/v1/auth/api-keys/rotate', { prefix: victim.prefix }],
      ['admin', 'GET', '/v1/tenant/policy'],
      ['admin', 'PATCH', '/v1/tenant/policy', { confirm_by: 'requester' }],
      ['admin', 'POST', '/v1/device/register', { device_type: 'smart_lock', home_id: owner.homeId }],
      ['admin', 'POST', `/v1/device/${lock.device_id}/rotate-secret`],
      ['admin', 'GET', '/v1/audit'],
      ['user', 'POST', `/v1/device/${lock.device_id}/command`, { action: 'lock' }],
      ['user', 'GET', '/v1/devices'],
    ];
    const before = await whatPersonsChange();
    const keys = Object.fromEntries(
      await Promise.all(roles.map(async (role) => [role, (await createApiKey(member[role])).key])),
    );
    for (const [needed, method, path, body] of roads) {
      for (const role of below(needed)) {
        const answer = await bearerRequester(service, role, member[role].token).request(method, path, body);
        expect([role, method, path, ...sentMessages(answer)]).toEqual([role, method, path, 403, 'FORBIDDEN_ROLE']);
        const byKey = await bearerRequester(service, role, keys[role]).request(method, path, body);
        expect([role, method, path, byKey.status]).toEqual([role, method, path, 403]);
        expect(['FORBIDDEN_ROLE', 'FORBIDDEN']).toContain(byKey.body.code);
      }
    }
    const after = await whatPersonsChange();
    expect({ ...after, keys: after.keys.filter(({ name }: { name: string }) => name !== 'a key').length }).toEqual({
      ...before,
      keys: before.keys.filter(({ name }: { name: string }) => name !== 'a key').length,
    });
  });

  it('cannot be raised by its own user', async () => {
    for (const role of below('owner')) {
      const { userId } = member[role];
      for (const wanted of roles.slice(roles.indexOf(role) + 1)) {
        expect(sentMessages(await member[role].patch(`/v1/tenant/members/${userId}`, { role: wanted }))).toEqual([
          403,
          'FORBIDDEN_ROLE',
        ]);
        const email = member[role].email;
        const again = await member[role].post('/v1/tenant/members', { email, role: wanted });
        expect(sentMessages(again)).toEqual([403, 'FORBIDDEN_ROLE']);
      }
      expect((await member[role].get('/v1/auth/me')).body.user.role).toBe(role);
    }
  });

  it('that is removed is removed from the keys at once, and restored with it', async () => {
    const who = await inviteMember(service, owner, 'admin');
    const { key } = await createApiKey(who);
    const made = () => service.api(key).post('/v1/homes', { home_name: 'A home' });
    expect((await made()).status).toBe(201);
    await owner.patch(`/v1/tenant/members/${who.userId}`, { role: 'viewer' });
    expect(sentMessages(await made())).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await service.api(key).get('/v1/homes')).status).toBe(200);
    await owner.delete(`/v1/tenant/members/${who.userId}`);
    expect((await made()).status).toBe(401);
    // A user who returns creates new keys.
    const { body } = await owner.post('/v1/tenant/members', { email: who.email, role: 'owner' });
    await who.post(`/v1/auth/invitations/${body.member.id}/accept`);
    expect((await made()).status).toBe(401);
  });
});

describe('scopes', () => {
  it('of a token limit its keys: none can be created or rotated to exceed them', async () => {
    const who = member.admin;
    const narrow = service.api(await freshToken(who, { scope: 'write:tenant read:tenant read:devices' }));
    const wide = await createApiKey(who);
    const wideScoped = await createApiKey(who, { scopes: ['write:devices'] });
    for (const scopes of [
      ['all'],
      ['*:*'],
      ['write:devices'],
      ['read:*'],
      ['*:devices'],
      ['read:devices', 'read:homes'],
    ]) {
      const answer = await narrow.post('/v1/auth/api-keys', { name: 'x', scopes });
      expect([scopes, ...sentMessages(answer)]).toEqual([scopes, 403, 'INSUFFICIENT_SCOPE']);
    }
    for (const { prefix } of [wide, wideScoped]) {
      expect(sentMessages(await narrow.post('/v1/auth/api-keys/rotate', { prefix }))).toEqual([
        403,
        'INSUFFICIENT_SCOPE',
      ]);
    }
    expect((await narrow.post('/v1/auth/api-keys', { name: 'x', scopes: ['read:devices'] })).status).toBe(201);
    const reader = service.api(await freshToken(who, { scope: 'read:devices' }));
    expect(sentMessages(await reader.post('/v1/auth/api-keys', { name: 'x', scopes: ['read:devices'] }))).toEqual([
      403,
      'INSUFFICIENT_SCOPE',
    ]);
  });

  it('of a token without known scopes are empty: for bearer, session, ticket and CLI tokens', async () => {
    const who = member.owner;
    const claims = { sub: 'narrow', email: 'narrow@example.com', email_verified: true };
    const invited = await owner.post('/v1/tenant/members', { email: claims.email, role: 'owner' });
    const whole = service.api(await issuer.token(claims));
    expect((await whole.post(`/v1/auth/invitations/${invited.body.member.id}/accept`)).status).toBe(200);
    for (const scope of ['read:device', 'readonly', 'READ:DEVICES', 'openid profile', '']) {
      const token = await freshToken(who, { scope });
      const external = await issuer.token({ ...claims, scope });
      for (const presented of [token, external]) {
        const actors = [
          bearerRequester(service, 'bearer', presented),
          await cookieRequester(service, 'session', presented),
        ];
        for (const actor of actors) {
          const me = await actor.request('GET', '/v1/auth/me');
          expect([me.status, me.body.user.role]).toEqual([200, 'owner']);
          for (const [method, path, sent] of [
            ['GET', '/v1/devices'],
            ['GET', '/v1/homes'],
            ['POST', '/v1/homes', { home_name: 'A home' }],
            ['POST', '/v1/auth/api-keys', { name: 'x', scopes: ['all'] }],
            ['POST', '/ws/ticket'],
          ] as const) {
            const answer = await actor.request(method, path, sent);
            expect([scope, path, ...sentMessages(answer)]).toEqual([scope, path, 403, 'INSUFFICIENT_SCOPE']);
          }
        }
        expect(await webSocket(presented)).toBe(4403);
      }
      const [code, verifier] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')];
      await service.api().get(`/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
      await service.api(token).post('/v1/auth/cli/approve', { code, user_code: userCodeOf(code) });
      const polled = await service.api().get(`/v1/auth/handshake/${code}`, { 'x-handshake-verifier': verifier });
      expect(sentMessages(await service.api(polled.body.access_token).get('/v1/devices'))).toEqual([
        403,
        'INSUFFICIENT_SCOPE',
      ]);
    }
  });

  it('of a key apply on every path it opens: REST, its tickets, and MQTT users', async () => {
    const { key } = await createApiKey(owner, { scopes: ['read:homes'] });
    const api = service.api(key);
    for (const path of [
      '/v1/devices',
      `/v1/devices/${lock.device_id}`,
      '/v1/confirmations',
      '/v1/groups',
      '/v1/audit',
    ]) {
      expect([path, ...sentMessages(await api.get(path))]).toEqual([path, 403, 'INSUFFICIENT_SCOPE']);
    }
    expect(sentMessages(await api.post('/ws/ticket'))).toEqual([403, 'INSUFFICIENT_SCOPE']);
    expect(await webSocket(key)).toBe(4403);
    const watcher = await createApiKey(owner, { scopes: ['read:devices'] });
    const { ticket } = (await service.api(watcher.key).post('/ws/ticket')).body;
    // A ticket acts for the key that requested it, not for its user.
    expect(await webSocket(ticket, 'events=state,command')).toBe(4403);
    const again = (await service.api(watcher.key).post('/ws/ticket')).body;
    expect(await webSocket(again.ticket, 'events=state,presence')).toBeNull();
  });

  it('of a platform operator cannot be given to a key or used in a tenant', async () => {
    for (const scopes of [['platform:admin'], ['read:devices', 'platform:admin'], ['platform:*'], ['*:platform']]) {
      expect(sentMessages(await owner.post('/v1/auth/api-keys', { name: 'x', scopes }))).toEqual([
        400,
        'VALIDATION_FAILED',
      ]);
    }
  });
});
