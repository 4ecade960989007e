import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import { fakeCredential, fakeVerifier } from '../../../support/fake-verifier.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import type { CallOptions, HttpService } from '../../../support/http-service.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase({ verifiers: [fakeVerifier] });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  lock = (await mine.register({ device_type: 'lock' })).device_id;
});
afterAll(() => service.close());

const get = (sent?: CallOptions) => mine.call('GET', '/tenant/policy', undefined, sent);
const patch = (body: unknown, sent?: CallOptions) => mine.call('PATCH', '/tenant/policy', body, sent);
const DEFAULT = { confirm_by: 'requester', agent_confirm_by: 'person', confirm_ttl_s: 300 };
let lock: string;
const unlock = async () => (await mine.call('POST', `/device/${lock}/command`, { action: 'unlock' })).body;
const approve = (id: string, sent?: CallOptions) => mine.call('POST', `/confirmations/${id}/approve`, undefined, sent);
const confirm = (dry_run_token: string, sent?: CallOptions) =>
  mine.call('POST', `/device/${lock}/command/confirm`, { dry_run_token }, sent);
const journal = () => service.services.store.actors.journal({ kind: 'tenant', id: mine.tenantId }, 20);

describe('GET /tenant/policy', () => {
  it('shows the default to admins of the tenant, under both roots', async () => {
    expect((await get()).body).toEqual({ policy: DEFAULT });
    const answer = await service.call('GET', '/api/v1/tenant/policy', { token: mine.tokens.admin });
    expect([answer.status, answer.body]).toEqual([200, { policy: DEFAULT }]);
    for (const token of [mine.tokens.user, mine.tokens.viewer]) {
      expect((await get({ token })).body.code).toBe('FORBIDDEN_ROLE');
    }
  });

  it('requires read:tenant of a key', async () => {
    const key = (scope: string) => fakeCredential(mine.userId, { key: 'aaaaaaaa', scopes: [scope] as never });
    expect((await get({ token: key('read:tenant') })).status).toBe(200);
    expect((await get({ token: key('read:commands') })).body.code).toBe('INSUFFICIENT_SCOPE');
  });

  it('requires a sign-in and a tenant', async () => {
    expect((await service.call('GET', '/v1/tenant/policy')).status).toBe(401);
    const outsider = await service.call('GET', '/v1/tenant/policy', { token: await service.token('stranger') });
    expect([outsider.status, outsider.body.code]).toEqual([403, 'TENANT_REQUIRED']);
  });
});

describe('PATCH /tenant/policy', () => {
  it('changes the named members and keeps the others', async () => {
    const first = await patch({ confirm_by: 'person' });
    expect([first.status, first.body]).toEqual([200, { policy: { ...DEFAULT, confirm_by: 'person' } }]);
    const second = await patch({ confirm_ttl_s: 60 }, { token: mine.tokens.admin });
    expect(second.body).toEqual({ policy: { ...DEFAULT, confirm_by: 'person', confirm_ttl_s: 60 } });
    expect((await get()).body).toEqual(second.body);
  });

  it('keeps both parts of two concurrent changes', async () => {
    await Promise.all([patch({ confirm_by: 'another_principal' }), patch({ confirm_ttl_s: 60 })]);
    expect((await get()).body.policy).toEqual({ ...DEFAULT, confirm_by: 'another_principal', confirm_ttl_s: 60 });
  });

  it('is journaled with its user, and not if nothing changes', async () => {
    await patch({ confirm_by: 'person' }, { token: mine.tokens.admin });
    for (const body of [{}, { confirm_by: 'person' }, { agent_confirm_by: 'person' }, { confirm_ttl_s: 300 }]) {
      expect((await patch(body)).status).toBe(200);
    }
    const entries = (await journal()).filter(({ event }) => event === 'policy.set');
    expect(entries).toHaveLength(1);
    const { id } = (await service.call('GET', '/v1/auth/me', { token: mine.tokens.admin })).body.user;
    expect(entries[0]).toMatchObject({
      by: { kind: 'user', id, via: 'rest', person: true },
      data: { policy: { confirm_by: 'person', confirm_ttl_s: 300 } },
    });
  });

  it('accepts 60 to 86,400 whole seconds and the three names only', async () => {
    for (const confirm_ttl_s of [60, 86_400])
      expect((await setPolicy(mine, { confirm_ttl_s })).confirm_ttl_s).toBe(confirm_ttl_s);
    const wrong = [
      ...[59, 86_401, 0, -60, 60.5, '60', null].map((confirm_ttl_s) => ({ confirm_ttl_s })),
      ...['anybody', '', null, ['person'], 'Person'].map((confirm_by) => ({ confirm_by })),
      { confirm_by: 'person', more: 1 },
      { policy: DEFAULT },
    ];
    for (const body of wrong) {
      const answer = await patch(body);
      expect([answer.status, answer.body.code], JSON.stringify(body)).toEqual([400, 'VALIDATION_FAILED']);
    }
    expect((await get()).body.policy).toEqual({ ...DEFAULT, confirm_ttl_s: 86_400 });
  });

  it('is reserved for admins in person: no lower role, no key, no agent token', async () => {
    const refused = async (token: string) => {
      const answer = await patch({ confirm_by: 'person' }, { token });
      return [answer.status, answer.body.code];
    };
    expect(await refused(mine.tokens.user)).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(await refused(mine.tokens.viewer)).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaaa' }))).toEqual([403, 'FORBIDDEN']);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaab', scopes: ['*:*'] }))).toEqual([
      403,
      'FORBIDDEN',
    ]);
    expect(await refused(fakeCredential(mine.userId, { key: 'aaaaaaac', person: true }))).toEqual([403, 'FORBIDDEN']);
    expect(await refused(fakeCredential(mine.userId))).toEqual([403, 'FORBIDDEN']);
    expect((await get()).body.policy).toEqual(DEFAULT);
    expect(
      (await patch({ confirm_by: 'person' }, { token: fakeCredential(mine.userId, { person: true }) })).status,
    ).toBe(200);
  });

  it('is refused during maintenance', async () => {
    await service.flags.set('maintenance_mode', true);
    const [read, change] = [await get(), await patch({ confirm_ttl_s: 60 })];
    await service.flags.set('maintenance_mode', false);
    expect([read.status, change.status, change.body.code]).toEqual([200, 503, 'MAINTENANCE']);
  });
});

describe('a stricter policy', () => {
  it('applies at once, also to what already waits', async () => {
    const { command_id, dry_run_token } = await unlock();
    const late = await unlock();
    const key = fakeCredential(mine.userId, { key: 'aaaaaaaa', tenantId: mine.tenantId });
    await patch({ confirm_by: 'person' });
    expect((await approve(command_id, { token: key })).body.code).toBe('CONFIRMATION_FAILED');
    expect((await confirm(dry_run_token, { token: key })).body.code).toBe('CONFIRMATION_FAILED');
    expect((await approve(command_id)).status).toBe(202);
    await patch({ confirm_ttl_s: 60 });
    const [entry] = (await mine.call('GET', '/confirmations')).body.confirmations;
    expect(Date.parse(entry.expires_at)).toBe(service.clock.now() + 60_000);
    service.clock.advance(60_000);
    expect((await mine.call('GET', '/confirmations')).body.confirmations).toEqual([]);
    expect((await approve(late.command_id)).body.code).toBe('ILLEGAL_TRANSITION');
    expect((await confirm(late.dry_run_token)).body.code).toBe('CONFIRMATION_FAILED');
  });
});

describe('a looser policy', () => {
  it.each([
    [{ confirm_by: 'another_principal' }, { confirm_by: 'requester' }, 'confirmed by anyone with the role'],
    [{ confirm_by: 'another_principal' }, { confirm_by: 'person' }, 'confirmed by a person (before: only by another'],
    [{ confirm_by: 'person' }, { confirm_by: 'another_principal' }, '(before: only by a person)'],
    [{}, { confirm_ttl_s: 301 }, 'accepted for 301 seconds (before: 300)'],
  ])('%j → %j waits for a confirmation', async (before, after, sentence) => {
    await patch(before);
    const { status, body } = await patch(after);
    expect([status, body.code, body.preview.weaker]).toEqual([
      409,
      'DRY_RUN_REQUIRED',
      [expect.stringContaining(sentence)],
    ]);
    expect((await get()).body.policy).toEqual({ ...DEFAULT, ...before });
  });

  it('is confirmed as the policy in force requires', async () => {
    await patch({ confirm_by: 'another_principal' });
    const { change_id, dry_run_token } = (await patch({ confirm_by: 'requester' })).body;
    const path = `/change-requests/${change_id}`;
    expect((await mine.call('POST', `${path}/confirm`, { dry_run_token })).body.code).toBe('CONFIRMATION_FAILED');
    expect((await mine.call('POST', `${path}/approve`)).body.code).toBe('CONFIRMATION_FAILED');
    const key = fakeCredential(mine.userId, { key: 'aaaaaaaa', tenantId: mine.tenantId });
    expect((await mine.call('POST', `${path}/approve`, undefined, { token: key })).body.code).toBe('FORBIDDEN');
    const applied = await mine.call('POST', `${path}/approve`, undefined, { token: mine.tokens.admin });
    expect([applied.status, applied.body]).toEqual([
      200,
      { status: 'applied', change_id, result: { policy: { ...DEFAULT, confirm_by: 'requester' } } },
    ]);
    const [entry] = await journal();
    expect(entry).toMatchObject({
      event: 'policy.set',
      data: { change: { id: change_id, requested_by: mine.userId } },
    });
  });

  it('is previewed again if the policy was changed in the meantime', async () => {
    await patch({ confirm_by: 'person' });
    const { change_id, dry_run_token } = (await patch({ confirm_by: 'requester', confirm_ttl_s: 600 })).body;
    await patch({ confirm_ttl_s: 60 });
    const path = (id: string) => `/change-requests/${id}`;
    const again = await mine.call('POST', `${path(change_id)}/confirm`, { dry_run_token });
    expect([again.status, again.body.code, again.body.preview.changes]).toEqual([
      409,
      'DRY_RUN_REQUIRED',
      { confirm_by: { from: 'person', to: 'requester' }, confirm_ttl_s: { from: 60, to: 600 } },
    ]);
    expect((await get()).body.policy).toEqual({ ...DEFAULT, confirm_by: 'person', confirm_ttl_s: 60 });
    expect((await mine.call('GET', path(change_id))).body.change.status).toBe('outdated');
    const { change_id: id, dry_run_token: token } = again.body;
    expect((await mine.call('POST', `${path(id)}/confirm`, { dry_run_token: token })).status).toBe(200);
    expect((await get()).body.policy).toEqual({ ...DEFAULT, confirm_ttl_s: 600 });
  });

  it('never applies to what already waits: a command, a plan and a change', async () => {
    await patch({ confirm_by: 'another_principal' });
    const command = await unlock();
    const light = (await mine.register({ device_type: 'smart_light' })).device_id;
    await mine.connect(light);
    const steps = [
      { id: 'a', device_id: light, action: 'turn_on' },
      { id: 'b', device_id: lock, action: 'unlock', depends_on: ['a'] },
    ];
    expect((await mine.call('POST', '/plans', { steps })).status).toBe(202);
    const gate = (await mine.register({ device_type: 'lock' })).device_id;
    const wide = { action: 'unlock', paramSchema: { type: 'object', properties: { force: {} } } };
    const change = (await mine.call('POST', `/devices/${gate}/manifest`, { capabilities: [wide] })).body;
    service.clock.advance(1);
    await setPolicy(mine, { confirm_by: 'requester' });

    // The plan requests its critical command under the looser policy; it began under the stricter one.
    const [{ id }] = (await mine.call('GET', `/device/${light}/commands`)).body.commands;
    await mine.report(light, { on: true });
    await mine.acknowledge(light, id, 'succeeded');
    const step = await eventually(async () => {
      const { confirmations } = (await mine.call('GET', '/confirmations')).body;
      return confirmations.find(({ plan_id }: { plan_id?: string }) => plan_id !== undefined);
    });
    for (const waiting of [command.command_id, step.command_id]) {
      expect((await approve(waiting)).body.code).toBe('CONFIRMATION_FAILED');
      expect((await approve(waiting, { token: mine.tokens.admin })).status).toBe(202);
    }
    const decided = `/change-requests/${change.change_id}/approve`;
    expect((await mine.call('POST', decided)).body.code).toBe('CONFIRMATION_FAILED');
    expect((await mine.call('POST', decided, undefined, { token: mine.tokens.admin })).status).toBe(200);
    expect((await approve((await unlock()).command_id)).status).toBe(202);
  });

  it('does not undo stricter rules that were in force while something waited', async () => {
    const { command_id } = await unlock();
    service.clock.advance(1);
    await patch({ confirm_by: 'another_principal' });
    await setPolicy(mine, { confirm_by: 'person' });
    await setPolicy(mine, { confirm_by: 'requester' });
    expect((await approve(command_id)).body.code).toBe('CONFIRMATION_FAILED');
    const key = { key: 'bbbbbbbb', tenantId: mine.tenantId };
    const { id } = (await mine.call('GET', '/auth/me', undefined, { token: mine.tokens.admin })).body.user;
    expect((await approve(command_id, { token: fakeCredential(id, key) })).body.code).toBe('CONFIRMATION_FAILED');
    expect((await approve(command_id, { token: mine.tokens.admin })).status).toBe(202);
  });

  it('is requested in GraphQL in the same way', async () => {
    await patch({ confirm_by: 'person' });
    const text = `mutation { updatePolicy(input: { confirmBy: REQUESTER }) {
      __typename ... on ChangeDryRunRequired { changeId preview { weaker } } } }`;
    const { body } = await queryGraphql(service, text, { token: mine.tokens.owner });
    expect(body.data.updatePolicy).toMatchObject({ __typename: 'ChangeDryRunRequired' });
    expect((await get()).body.policy.confirm_by).toBe('person');
  });
});
