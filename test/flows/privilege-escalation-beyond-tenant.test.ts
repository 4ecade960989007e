import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AccessFixture,
  bearerRequester,
  cookieRequester,
  createApiKey,
  inviteMember,
  markAsAgentToken,
  type Requester,
  startAccessFixture,
} from '../support/access-fixture.ts';
import type { ApiClient, ApiResponse } from '../support/service.ts';

// Escalation paths beyond the members of a tenant: administration, invitations, stored responses, and the safety
// policy.

let stage: AccessFixture;
let { service, issuer, owner, otherOwner, member, lock, freshToken, webSocket } = {} as AccessFixture;
beforeAll(async () => {
  stage = await startAccessFixture();
  ({ service, issuer, owner, otherOwner, member, lock, freshToken, webSocket } = stage);
});
afterAll(() => stage.close());

const sentMessages = ({ status, body }: Pick<ApiResponse, 'status' | 'body'>) => [status, body.code];

describe('administration', () => {
  const roads = (): [string, string, unknown?][] => [
    ['GET', '/v1/admin/tenants'],
    ['POST', `/v1/admin/tenants/${otherOwner.tenantId}/suspend`],
    ['POST', `/v1/admin/tenants/${otherOwner.tenantId}/resume`],
    ['POST', `/v1/admin/tenants/${owner.tenantId}/tier`, { tier: 'pro' }],
    ['GET', '/v1/admin/flags'],
    ['POST', '/v1/admin/flags/maintenance_mode', { state: true }],
  ];

  it('is refused to every tenant role, every key and every external token that requests the scope', async () => {
    const sub = 'operator';
    const operator = service.api(await service.token(sub, { email: 'op@example.com', scope: 'platform:admin' }));
    expect((await operator.get('/v1/admin/flags')).status).toBe(200);
    const { body } = await owner.post('/v1/tenant/members', { email: 'op@example.com', role: 'admin' });
    expect((await operator.post(`/v1/auth/invitations/${body.member.id}/accept`)).status).toBe(200);
    const actors: Requester[] = [
      bearerRequester(service, 'the owner of a tenant', owner.token),
      bearerRequester(service, 'a key of an owner', (await createApiKey(owner, { scopes: ['*:*'] })).key),
      bearerRequester(service, 'a key that an operator made', (await createApiKey(operator)).key),
      bearerRequester(service, 'the operator without the scope', await service.token(sub)),
      bearerRequester(service, 'an external token with the scope', await issuer.token({ scope: 'platform:admin' })),
      bearerRequester(
        service,
        'an external token with scopes',
        await issuer.token({ scope: 'openid platform:admin *:*' }),
      ),
      bearerRequester(
        service,
        'an external token with a list of scopes',
        await issuer.token({ scp: ['platform:admin'] }),
      ),
      bearerRequester(
        service,
        'an external token with another group',
        await issuer.token({ groups: ['operator', 'operators2'] }),
      ),
      bearerRequester(
        service,
        'an external token with the claim’s words',
        await issuer.token({ groups: 'groups:operators' }),
      ),
      await cookieRequester(service, 'a cookie session of the owner', await service.token('ada')),
    ];
    for (const actor of actors) {
      for (const [method, path, sent] of roads()) {
        const answer = await actor.request(method, path, sent);
        expect([actor.name, method, path, ...sentMessages(answer)]).toEqual([
          actor.name,
          method,
          path,
          403,
          'FORBIDDEN',
        ]);
      }
    }
    const flags = (await operator.get('/v1/admin/flags')).body.flags;
    expect(Object.values(flags)).toEqual([false, false, false, false]);
    expect((await otherOwner.get('/v1/homes')).status).toBe(200);
  });

  it('gives an operator no access to a tenant', async () => {
    const operator = service.api(await service.token('operator-alone', { scope: 'platform:admin' }));
    for (const path of ['/v1/devices', '/v1/homes', '/v1/tenant/members', '/v1/auth/api-keys']) {
      expect(sentMessages(await operator.get(path))).toEqual([403, 'TENANT_REQUIRED']);
    }
    expect(sentMessages(await operator.post('/v1/auth/api-keys', { name: 'x', scopes: ['all'] }))).toEqual([
      403,
      'TENANT_REQUIRED',
    ]);
  });
});

describe('an invitation', () => {
  it('that was not accepted gives no access and no role', async () => {
    const email = `${randomUUID()}@example.com`;
    const { id } = (await owner.post('/v1/tenant/members', { email, role: 'owner' })).body.member;
    const invited = service.api(await service.token(email, { email }));
    for (const path of ['/v1/devices', '/v1/homes', '/v1/tenant/members', '/v1/auth/api-keys', '/v1/tenant/policy']) {
      expect(sentMessages(await invited.get(path))).toEqual([403, 'TENANT_REQUIRED']);
    }
    expect(sentMessages(await invited.post('/v1/auth/api-keys', { name: 'x', scopes: ['all'] }))).toEqual([
      403,
      'TENANT_REQUIRED',
    ]);
    expect(await webSocket(invited.token)).toBe(4403);
    // The id of an invitation cannot be used as a user id.
    expect(sentMessages(await otherOwner.patch(`/v1/tenant/members/${id}`, { role: 'owner' }))).toEqual([
      404,
      'NOT_FOUND',
    ]);
  });

  it('can be accepted only by its user: not by its id, an unverified address, or a similar address', async () => {
    const email = `kim-${randomUUID()}@example.com`;
    const { id } = (await owner.post('/v1/tenant/members', { email, role: 'admin' })).body.member;
    const others = [
      service.api(await service.token('somebody', { email: 'somebody@example.com' })),
      service.api(await service.token('without')),
      service.api(await issuer.token({ sub: 'unverified', email })),
      service.api(await issuer.token({ sub: 'unverified', email, email_verified: 'true' })),
      service.api(await issuer.token({ sub: 'alike', email: email.replace('k', '\u212a'), email_verified: true })),
      service.api(await service.token('alike2', { email: ` ${email}` })),
      service.api(otherOwner.token),
    ];
    for (const other of others) {
      expect((await other.get('/v1/auth/me')).body.invitations).toEqual([]);
      expect(sentMessages(await other.post(`/v1/auth/invitations/${id}/accept`))).toEqual([404, 'NOT_FOUND']);
    }
  });

  it('whose creator lost the role in the meantime gives no access', async () => {
    const maker = await inviteMember(service, owner, 'owner');
    const email = `${randomUUID()}@example.com`;
    const { id } = (await maker.post('/v1/tenant/members', { email, role: 'owner' })).body.member;
    const invited = service.api(await service.token(email, { email }));
    const accept = () => invited.post(`/v1/auth/invitations/${id}/accept`);
    await owner.patch(`/v1/tenant/members/${maker.userId}`, { role: 'admin' });
    expect(sentMessages(await accept())).toEqual([404, 'NOT_FOUND']);
    await owner.delete(`/v1/tenant/members/${maker.userId}`);
    expect(sentMessages(await accept())).toEqual([404, 'NOT_FOUND']);
    expect((await invited.get('/v1/auth/me')).body).toMatchObject({ has_tenant: false, invitations: [] });
  });
});

describe('a stored response', () => {
  const idem = { 'idempotency-key': 'one-key-for-all' };
  const body = { name: 'stored', scopes: ['all'] };

  it('with a key is returned only to the user who sent the request', async () => {
    const requester = member.admin;
    const first = await requester.post('/v1/auth/api-keys', body, idem);
    expect((await requester.post('/v1/auth/api-keys', body, idem)).body).toEqual(first.body);
    const agents = await freshToken(requester);
    await markAsAgentToken(service, agents);
    const others: Requester[] = [
      bearerRequester(service, 'another of the tenant', member.owner.token),
      bearerRequester(service, 'a viewer', member.viewer.token),
      bearerRequester(service, 'another tenant’s', otherOwner.token),
      bearerRequester(service, 'the requester’s key', (await createApiKey(requester)).key),
      bearerRequester(service, 'the requester’s token of an agent', agents),
      bearerRequester(
        service,
        'the requester with fewer scopes',
        await freshToken(requester, { scope: 'read:devices' }),
      ),
      bearerRequester(service, 'nobody', 'nonsense'),
    ];
    for (const other of others) {
      const answer = await other.request('POST', '/v1/auth/api-keys', body, idem);
      expect([other.name, answer.headers.get('idempotent-replayed')]).toEqual([other.name, null]);
      expect(JSON.stringify(answer.body), other.name).not.toContain(first.body.key);
    }
  });

  it('with a device secret is returned only to the credential of the request', async () => {
    const requester = member.admin;
    const device = { device_type: 'smart_light', home_id: owner.homeId };
    const key = await createApiKey(requester, { scopes: ['write:devices'] });
    const first = await service.api(key.key).post('/v1/device/register', device, idem);
    expect(first.status).toBe(201);
    const others: [Requester, number][] = [
      [
        bearerRequester(
          service,
          'the requester’s key without the scope',
          (await createApiKey(requester, { scopes: ['read:devices'] })).key,
        ),
        403,
      ],
      [bearerRequester(service, 'another admin', (await inviteMember(service, owner, 'admin')).token), 201],
      [bearerRequester(service, 'a user', member.user.token), 403],
      [bearerRequester(service, 'another tenant’s', otherOwner.token), 404],
    ];
    for (const [other, status] of others) {
      const answer = await other.request('POST', '/v1/device/register', device, idem);
      expect([other.name, answer.status, answer.headers.get('idempotent-replayed')]).toEqual([
        other.name,
        status,
        null,
      ]);
      expect(JSON.stringify(answer.body)).not.toContain(first.body.device_secret);
    }
    const again = await service.api(key.key).post('/v1/device/register', device, idem);
    expect([again.headers.get('idempotent-replayed'), again.body]).toEqual(['true', first.body]);
    // The creator of a key is another credential.
    const ofCreator = await requester.post('/v1/device/register', device, idem);
    expect([ofCreator.status, ofCreator.body.code]).toEqual([409, 'CONFLICT']);
    await service.api(owner.token).post('/v1/auth/api-keys/revoke', { prefix: key.prefix });
    expect((await service.api(key.key).post('/v1/device/register', device, idem)).status).toBe(401);
  });
});

describe('the safety policy', () => {
  const policy = async (confirm_by: string) => {
    const { status, body } = await owner.patch('/v1/tenant/policy', { confirm_by });
    if (status !== 409) return;
    expect((await owner.post(`/v1/change-requests/${body.change_id}/approve`)).status).toBe(200);
  };
  const unlock = async (who: Pick<ApiClient, 'post'>) => {
    const requested = await who.post(`/v1/device/${lock.device_id}/command`, { action: 'unlock' });
    expect(sentMessages(requested)).toEqual([409, 'DRY_RUN_REQUIRED']);
    return requested.body as { command_id: string; dry_run_token: string };
  };
  const statusOf = async (id: string) => (await owner.get(`/v1/commands/${id}`)).body.command.status;
  /** By the token and by the inbox. */
  const tries = (actor: Requester, { command_id, dry_run_token }: { command_id: string; dry_run_token: string }) => [
    actor.request('POST', `/v1/device/${lock.device_id}/command/confirm`, { dry_run_token }),
    actor.request('POST', `/v1/confirmations/${command_id}/approve`),
  ];

  it('`person` is satisfied by no key and no agent, and they cannot loosen it', async () => {
    await policy('person');
    const requested = await unlock(member.user);
    const [agents, opened] = [await freshToken(member.admin), await freshToken(member.admin)];
    const session = await cookieRequester(service, 'a cookie session whose token an agent presented', opened);
    for (const token of [agents, opened]) await markAsAgentToken(service, token);
    const agentToken = await freshToken(member.user);
    await markAsAgentToken(service, agentToken);
    const actors: Requester[] = [
      bearerRequester(service, 'an owner’s key', (await createApiKey(member.owner)).key),
      bearerRequester(
        service,
        'the requester’s key',
        (await createApiKey(member.user, { scopes: ['execute:commands'] })).key,
      ),
      bearerRequester(service, 'a token that an agent presented', agents),
      bearerRequester(service, 'the requester’s token that an agent presented', agentToken),
      session,
    ];
    for (const actor of actors) {
      for (const road of tries(actor, requested)) {
        const answer = await road;
        expect([actor.name, ...sentMessages(answer)]).toEqual([actor.name, 403, 'CONFIRMATION_FAILED']);
      }
      expect((await actor.request('PATCH', '/v1/tenant/policy', { confirm_by: 'requester' })).status, actor.name).toBe(
        403,
      );
    }
    expect(await statusOf(requested.command_id)).toBe('awaiting_confirmation');
    const person = await member.admin.post(`/v1/confirmations/${requested.command_id}/approve`);
    expect(person.status).toBe(202);
  });

  it('`another_principal` is satisfied by no credential of the requester', async () => {
    await policy('another_principal');
    const first = await createApiKey(member.admin);
    const requested = await unlock(service.api(first.key));
    const rotated = (await member.admin.post('/v1/auth/api-keys/rotate', { prefix: first.prefix })).body;
    const actors: Requester[] = [
      bearerRequester(service, 'the requester', member.admin.token),
      bearerRequester(service, 'another token of the requester', await freshToken(member.admin)),
      bearerRequester(service, 'the key that asked, rotated', rotated.key),
      bearerRequester(service, 'another key of the requester', (await createApiKey(member.admin)).key),
      await cookieRequester(service, 'a cookie session of the requester', await freshToken(member.admin)),
      bearerRequester(service, 'a viewer', member.viewer.token),
      bearerRequester(
        service,
        'a key without the scope',
        (await createApiKey(member.owner, { scopes: ['write:*', 'read:*'] })).key,
      ),
    ];
    for (const actor of actors) {
      for (const road of tries(actor, requested)) expect([actor.name, (await road).status]).toEqual([actor.name, 403]);
    }
    expect(await statusOf(requested.command_id)).toBe('awaiting_confirmation');
    // A key that an admin took over by rotating it belongs to the admin, and acts as the admin.
    const taken = (await owner.post('/v1/auth/api-keys/rotate', { prefix: rotated.prefix })).body;
    const own = await unlock(service.api(taken.key));
    expect((await owner.post(`/v1/confirmations/${own.command_id}/approve`)).status).toBe(403);
    expect((await service.api(taken.key).post(`/v1/confirmations/${requested.command_id}/approve`)).status).toBe(202);
  });
});
