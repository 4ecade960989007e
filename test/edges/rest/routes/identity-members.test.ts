import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CallResult, type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';

type Role = 'viewer' | 'user' | 'admin' | 'owner';

let service: HttpService<MemoryStore>;
let owner: { token: string; userId: string; tenantId: string };
let tokens: Record<Role, string>;
beforeEach(async () => {
  service = await startHttpService();
  owner = await service.owner('Lakeside');
  tokens = {
    owner: owner.token,
    admin: await service.member(owner.tenantId, 'admin'),
    user: await service.member(owner.tenantId, 'user'),
    viewer: await service.member(owner.tenantId, 'viewer'),
  };
});
afterEach(() => service.close());

const DAY = 86_400_000;
const NOBODY = '0195d9a2-7f00-7000-8000-000000000000';

const request = (method: string, path: string, token: string, body?: unknown, headers: Record<string, string> = {}) =>
  service.call(method, `/v1${path}`, { token, body, headers });
const answer = ({ status, body }: CallResult) => [status, body.code];
const me = async (token: string) => (await request('GET', '/auth/me', token)).body;
const idOf = async (token: string): Promise<string> => (await me(token)).user.id;
const members = async (token: string, query = '') => (await request('GET', `/tenant/members${query}`, token)).body;
const invite = (token: string, email = 'bea@example.com', role: string = 'user', headers?: Record<string, string>) =>
  request('POST', '/tenant/members', token, { email, role }, headers);
const change = (token: string, id: string, role: string) => request('PATCH', `/tenant/members/${id}`, token, { role });
const remove = (token: string, id: string) => request('DELETE', `/tenant/members/${id}`, token);
const accept = (token: string, id: string, headers?: Record<string, string>) =>
  request('POST', `/auth/invitations/${id}/accept`, token, undefined, headers);
const bea = (email = 'bea@example.com', sub = 'bea') => service.token(sub, { email });

async function invited(role: string = 'user', email = 'bea@example.com'): Promise<string> {
  const { status, body } = await invite(tokens.owner, email, role);
  expect(status).toBe(201);
  return body.member.id;
}

describe('the list of members', () => {
  it('has all members and invitations of the tenant, newest first in pages', async () => {
    const id = await invited('viewer');
    await service.owner();
    const { members: all, next_cursor } = await members(tokens.admin);
    expect(next_cursor).toBeNull();
    expect(all.map(({ role, status }: { role: string; status: string }) => [role, status]).sort()).toEqual([
      ['admin', 'active'],
      ['owner', 'active'],
      ['user', 'active'],
      ['viewer', 'active'],
      ['viewer', 'invited'],
    ]);
    expect(all).toContainEqual({ id, email: 'bea@example.com', role: 'viewer', status: 'invited' });
    expect(all).toContainEqual({ id: owner.userId, email: null, role: 'owner', status: 'active' });
    const first = await members(tokens.owner, '?limit=3');
    const second = await members(tokens.owner, `?limit=3&cursor=${first.next_cursor}`);
    expect([...first.members, ...second.members]).toEqual(all);
  });

  it('requires the role admin', async () => {
    for (const role of ['viewer', 'user'] as const) {
      expect(answer(await request('GET', '/tenant/members', tokens[role]))).toEqual([403, 'FORBIDDEN_ROLE']);
    }
  });
});

describe('an invitation', () => {
  it('gives no access until it is accepted', async () => {
    const token = await bea();
    await me(token);
    const { status, body } = await invite(tokens.admin);
    expect(status).toBe(201);
    expect(body).toEqual({
      member: { id: expect.any(String), email: 'bea@example.com', role: 'user', status: 'invited' },
    });
    expect(await me(token)).toMatchObject({
      has_tenant: false,
      user: { role: 'none', tenant_id: null },
      invitations: [{ id: body.member.id, tenant_name: 'Lakeside', role: 'user' }],
    });
    expect(answer(await request('GET', '/homes', token))).toEqual([403, 'TENANT_REQUIRED']);
    const accepted = await accept(token, body.member.id);
    expect([accepted.status, accepted.body]).toEqual([200, { tenant_id: owner.tenantId, role: 'user' }]);
    expect(await me(token)).toMatchObject({ user: { role: 'user', tenant_id: owner.tenantId }, invitations: [] });
    expect((await request('GET', '/homes', token)).status).toBe(200);
    const { members: all } = await members(tokens.admin);
    expect(all).toContainEqual({ id: await idOf(token), email: 'bea@example.com', role: 'user', status: 'active' });
    expect(all).toHaveLength(5);
  });

  it('matches its address in any case, and no other address', async () => {
    const id = await invited('user', 'Bea@Example.com');
    const [same, other] = [await bea('BEA@example.COM'), await bea('bea@example.org', 'other')];
    expect((await me(other)).invitations).toEqual([]);
    expect(answer(await accept(other, id))).toEqual([404, 'NOT_FOUND']);
    expect((await me(same)).invitations).toHaveLength(1);
    expect((await accept(same, id)).status).toBe(200);
  });

  it('cannot be accepted by a user with an unverified address', async () => {
    const id = await invited();
    const token = await bea();
    const userId = await idOf(token);
    await service.updateUser(userId, { emailVerified: false });
    expect((await me(token)).invitations).toEqual([]);
    expect(answer(await accept(token, id))).toEqual([404, 'NOT_FOUND']);
    await service.updateUser(userId, { email: null, emailVerified: false });
    expect(answer(await accept(token, id))).toEqual([404, 'NOT_FOUND']);
  });

  it('is accepted once, and a repeated request gets the same response', async () => {
    const id = await invited();
    const token = await bea();
    const headers = { 'idempotency-key': 'k' };
    const first = await accept(token, id, headers);
    const again = await accept(token, id, headers);
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(answer(await accept(token, id))).toEqual([404, 'NOT_FOUND']);
  });

  it('is kept while its user belongs to another tenant', async () => {
    const id = await invited();
    const token = await bea();
    await request('POST', '/tenant/register', token, { tenant_name: 'Mine' });
    expect((await me(token)).invitations).toHaveLength(1);
    expect(answer(await accept(token, id))).toEqual([409, 'CONFLICT']);
    const userId = await idOf(token);
    await service.updateUser(userId, { tenantId: null, role: 'none' });
    expect((await accept(token, id)).status).toBe(200);
  });

  it('of a suspended tenant is shown, and cannot be accepted until it is resumed; nor during maintenance', async () => {
    const id = await invited();
    const token = await bea();
    const ref = { kind: 'tenant', id: owner.tenantId } as const;
    await service.runtime.actors.send(ref, { type: 'suspend', at: service.clock.now() });
    expect((await me(token)).invitations).toHaveLength(1);
    expect(answer(await accept(token, id))).toEqual([403, 'TENANT_SUSPENDED']);
    await service.runtime.actors.send(ref, { type: 'resume', at: service.clock.now() });
    await service.flags.set('maintenance_mode', true);
    expect(answer(await accept(token, id))).toEqual([503, 'MAINTENANCE']);
    await service.flags.set('maintenance_mode', false);
    expect((await accept(token, id)).status).toBe(200);
  });

  it('expires after 14 days', async () => {
    const id = await invited();
    service.clock.advance(14 * DAY - 1);
    expect((await me(await bea())).invitations).toHaveLength(1);
    service.clock.advance(1);
    expect((await me(await bea())).invitations).toEqual([]);
    expect(answer(await accept(await bea(), id))).toEqual([404, 'NOT_FOUND']);
    const sub = service.store.users.get(owner.userId)?.sub ?? '';
    const later = await service.token(sub);
    expect((await members(later)).members).toHaveLength(4);
    expect((await invite(later)).status).toBe(201);
  });

  it('cannot be accepted if its creator lost the permission', async () => {
    const admin = await idOf(tokens.admin);
    const { body } = await invite(tokens.admin, 'bea@example.com', 'admin');
    const token = await bea();
    expect((await me(token)).invitations).toHaveLength(1);
    await change(tokens.owner, admin, 'user');
    expect((await me(token)).invitations).toEqual([]);
    expect(answer(await accept(token, body.member.id))).toEqual([404, 'NOT_FOUND']);
    expect((await members(tokens.owner)).members).toHaveLength(4);
    // It does not block a new invitation.
    expect((await invite(tokens.owner)).status).toBe(201);
  });

  it('cannot be accepted if its creator left', async () => {
    const { body } = await invite(tokens.admin);
    await remove(tokens.admin, await idOf(tokens.admin));
    expect(answer(await accept(await bea(), body.member.id))).toEqual([404, 'NOT_FOUND']);
  });

  it('can be changed and revoked like a member', async () => {
    const id = await invited('user');
    const changed = await change(tokens.admin, id, 'viewer');
    expect([changed.status, changed.body.member]).toEqual([
      200,
      { id, email: 'bea@example.com', role: 'viewer', status: 'invited' },
    ]);
    expect((await me(await bea())).invitations).toEqual([{ id, tenant_name: 'Lakeside', role: 'viewer' }]);
    expect((await remove(tokens.admin, id)).status).toBe(204);
    expect((await me(await bea())).invitations).toEqual([]);
    expect(answer(await remove(tokens.admin, id))).toEqual([404, 'NOT_FOUND']);
  });

  it('is unique for an address; a member needs none', async () => {
    const id = await invited();
    expect(answer(await invite(tokens.admin, 'BEA@example.com'))).toEqual([409, 'CONFLICT']);
    const again = await invite(tokens.owner, 'cara@example.com', 'user', { 'idempotency-key': 'k' });
    const replay = await invite(tokens.owner, 'cara@example.com', 'user', { 'idempotency-key': 'k' });
    expect([replay.status, replay.body]).toEqual([201, again.body]);
    await accept(await bea(), id);
    expect(answer(await invite(tokens.admin, 'bea@Example.com'))).toEqual([409, 'CONFLICT']);
  });

  it('is refused above a hundred', async () => {
    for (let n = 0; n < 100; n++) await invited('viewer', `p${n}@example.com`);
    expect(answer(await invite(tokens.owner))).toEqual([409, 'CONFLICT']);
    expect((await invite((await service.owner()).token)).status).toBe(201);
  });

  it.each([
    ['no address', 'bea', 'user'],
    ['an address with a line break', 'bea@example.com\r\nBcc: x@example.com', 'user'],
    ['an address of 255 characters', `${'b'.repeat(243)}@example.com`, 'user'],
    ['the role none', 'bea@example.com', 'none'],
    ['an unknown role', 'bea@example.com', 'root'],
  ])('with %s is 400', async (_, email, role) => {
    expect(answer(await invite(tokens.owner, email, role))).toEqual([400, 'VALIDATION_FAILED']);
  });
});

describe('roles', () => {
  const all: Role[] = ['viewer', 'user', 'admin', 'owner'];
  const rank = (role: Role) => all.indexOf(role);

  it('can be granted by an admin up to admin, by invitation and by change, and not below', async () => {
    const target = await idOf(tokens.viewer);
    for (const actor of all) {
      for (const role of all) {
        const allowed = rank(actor) >= rank('admin') && rank(actor) >= rank(role);
        const invitation = await invite(tokens[actor], `${actor}.${role}@example.com`, role);
        expect([actor, role, ...answer(invitation)]).toEqual([
          actor,
          role,
          ...(allowed ? [201, undefined] : [403, 'FORBIDDEN_ROLE']),
        ]);
        const changed = await change(tokens[actor], target, role);
        expect([actor, role, ...answer(changed)]).toEqual([
          actor,
          role,
          ...(allowed ? [200, undefined] : [403, 'FORBIDDEN_ROLE']),
        ]);
        await service.updateUser(target, { role: 'viewer' });
      }
    }
  });

  it('above one’s own cannot be changed or removed', async () => {
    const second = await service.member(owner.tenantId, 'admin');
    await service.updateUser(await idOf(second), { role: 'owner' });
    expect(answer(await change(tokens.admin, owner.userId, 'viewer'))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(answer(await remove(tokens.admin, owner.userId))).toEqual([403, 'FORBIDDEN_ROLE']);
    const offered = await invited('owner');
    expect(answer(await change(tokens.admin, offered, 'viewer'))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(answer(await remove(tokens.admin, offered))).toEqual([403, 'FORBIDDEN_ROLE']);
  });

  it('change with the next request', async () => {
    const id = await idOf(tokens.user);
    const home = () => request('POST', '/homes', tokens.user, { home_name: 'x' });
    expect(answer(await home())).toEqual([403, 'FORBIDDEN_ROLE']);
    const { status, body } = await change(tokens.admin, id, 'admin');
    expect([status, body]).toEqual([200, { member: { id, email: null, role: 'admin', status: 'active' } }]);
    expect((await home()).status).toBe(201);
    await change(tokens.owner, id, 'viewer');
    expect(answer(await home())).toEqual([403, 'FORBIDDEN_ROLE']);
  });

  it('must include at least one owner', async () => {
    for (const role of ['viewer', 'admin'] as const) {
      expect(answer(await change(tokens.owner, owner.userId, role))).toEqual([409, 'CONFLICT']);
    }
    expect((await change(tokens.owner, owner.userId, 'owner')).status).toBe(200);
    expect(answer(await remove(tokens.owner, owner.userId))).toEqual([409, 'CONFLICT']);
    await change(tokens.owner, await idOf(tokens.admin), 'owner');
    const both = await Promise.all([
      remove(tokens.owner, owner.userId),
      change(tokens.admin, await idOf(tokens.admin), 'user'),
    ]);
    expect(both.filter(({ status }) => status === 409)).toHaveLength(1);
    const owners = [...service.store.users.values()].filter(
      ({ tenantId, role }) => tenantId === owner.tenantId && role === 'owner',
    );
    expect(owners).toHaveLength(1);
  });
});

describe('leaving a tenant', () => {
  it('is possible for every member, at once', async () => {
    for (const role of ['viewer', 'user', 'admin'] as const) {
      const id = await idOf(tokens[role]);
      expect((await remove(tokens[role], id)).status).toBe(204);
      expect(await me(tokens[role])).toMatchObject({ has_tenant: false, user: { role: 'none', tenant_id: null } });
      expect(answer(await request('GET', '/homes', tokens[role]))).toEqual([403, 'TENANT_REQUIRED']);
    }
    expect((await members(tokens.owner)).members).toHaveLength(1);
  });

  it('of other members requires the role admin', async () => {
    for (const role of ['viewer', 'user'] as const) {
      expect(answer(await remove(tokens[role], await idOf(tokens.admin)))).toEqual([403, 'FORBIDDEN_ROLE']);
      expect(answer(await remove(tokens[role], NOBODY))).toEqual([403, 'FORBIDDEN_ROLE']);
    }
    expect((await remove(tokens.admin, await idOf(tokens.viewer))).status).toBe(204);
  });

  it('allows the user to register or join another tenant', async () => {
    await remove(tokens.user, await idOf(tokens.user));
    expect((await request('POST', '/tenant/register', tokens.user, { tenant_name: 'Mine' })).status).toBe(201);
  });
});

describe('of another tenant', () => {
  it('members and invitations are not found, with the same body as missing ones', async () => {
    const outsider = await service.owner();
    const sent = async (work: Promise<CallResult>) => {
      const { instance: _, request_id: __, ...rest } = (await work).body;
      return rest;
    };
    const missing = await sent(remove(outsider.token, NOBODY));
    expect(missing).toMatchObject({ status: 404, code: 'NOT_FOUND' });
    for (const id of [owner.userId, await idOf(tokens.viewer), await invited(), 'nonsense']) {
      expect(await sent(remove(outsider.token, id))).toEqual(missing);
      expect(await sent(change(outsider.token, id, 'viewer'))).toEqual(missing);
    }
    const gone = await sent(accept(outsider.token, NOBODY));
    expect(await sent(accept(outsider.token, await invited('user', 'x@example.com')))).toEqual(gone);
    expect(gone).toMatchObject({ status: 404, code: 'NOT_FOUND' });
  });
});

describe('a key', () => {
  it('cannot change members or accept for its creator, with any role and scopes', async () => {
    const { body } = await request('POST', '/auth/api-keys', tokens.owner, { name: 'all', scopes: ['*:*'] });
    const id = await invited();
    const target = await idOf(tokens.viewer);
    for (const refused of [
      await invite(body.key, 'x@example.com'),
      await change(body.key, target, 'user'),
      await remove(body.key, target),
      await remove(body.key, owner.userId),
      await accept(body.key, id),
    ]) {
      expect(answer(refused)).toEqual([403, 'FORBIDDEN']);
    }
    expect((await members(body.key)).members).toHaveLength(5);
  });
});

it('concurrent acceptance and leaving gives each user one tenant or none', async () => {
  const other = await service.owner('Hillside');
  const token = await bea();
  const ids = [await invited(), (await invite(other.token)).body.member.id];
  const answers = await Promise.all([
    ...ids.map((id) => accept(token, id)),
    request('POST', '/tenant/register', token, { tenant_name: 'Mine' }),
  ]);
  expect(answers.map(({ status }) => status < 300).filter(Boolean)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(2);
});
