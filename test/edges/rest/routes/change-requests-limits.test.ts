import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ChangeRequest } from '../../../../src/domain/change-request.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';
import { approve, as, coded, device, lower, refuse, show, waiting, withGate } from '../weaker-manifest.ts';

// How many change requests may wait, and which earlier ones a new one replaces.

withTwoTenants();
withGate();

const makeKey = async () => {
  const { key, prefix } = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['all'] })).body;
  return { token: key as string, prefix: prefix as string };
};
let key: Awaited<ReturnType<typeof makeKey>>;
beforeEach(async () => {
  await mine.call('PATCH', '/tenant/policy', { confirm_by: 'person' });
  key = await makeKey();
});

const rotate = (sent: object) => mine.call('POST', `/device/${device}/rotate-secret`, {}, sent);
const idOf = async (asked: ReturnType<typeof rotate>): Promise<string> => (await asked).body.change_id;
const stored = async (id: string) => (await service.store.changeRequests.find(id)) as ChangeRequest;
/** Lets `count` more requests like this one wait, of its requester or of others, for other subjects. */
async function repeat(id: string, count: number, more: () => Partial<ChangeRequest> = () => ({})): Promise<void> {
  const request = await stored(id);
  const limits = { own: 1_000, all: 1_000 };
  for (let n = 0; n < count; n++) {
    const one = { ...request, id: v7(), subject: `device:${v7()}`, ...more() };
    expect(await service.store.changeRequests.insert(one, limits, { by: one.requestedBy })).toBe('inserted');
  }
}
const ofAnotherUser = () => ({ requestedBy: { kind: 'user' as const, id: v7(), person: true, via: 'rest' } });

describe('a repeated change request', () => {
  it('replaces the earlier one of the same API key for the same change', async () => {
    const first = await idOf(rotate(key));
    const second = await idOf(rotate(key));
    expect(await show(first)).toMatchObject({
      ...{ status: 'outdated', decided_by: mine.userId, refusal_reason: `Replaced by the change request ${second}.` },
    });
    expect((await waiting()).map(({ id }: { id: string }) => id)).toEqual([second]);
    expect(coded(await approve(first))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect((await approve(second)).status).toBe(200);
  });

  it('replaces none of another key, of a person, or for another change', async () => {
    const first = await idOf(rotate(key));
    await rotate(await makeKey());
    await mine.call('POST', `/device/${device}/revoke`, {}, key);
    const second = (await lower()).change_id;
    await lower(as('admin'));
    for (const id of [first, second]) expect((await show(id)).status).toBe('awaiting_confirmation');
    expect(await waiting()).toHaveLength(5);
  });

  it('ends together with the request that a new preview replaces', async () => {
    const asked = await idOf(rotate(key));
    await rotate(as('owner'));
    const renewed = (await approve(asked, as('admin'))).body.change_id;
    const { decided_by, ...shown } = await show(asked);
    expect(shown).toMatchObject({
      ...{ status: 'outdated', refusal_reason: `Replaced by the change request ${renewed}.` },
    });
    expect(decided_by).not.toBe(mine.userId);
    expect(await show(renewed)).toMatchObject({ status: 'awaiting_confirmation', requested_by: mine.userId });
  });
});

describe('change requests', () => {
  it('of an API key wait up to 20, and leave room for people and other keys', async () => {
    const first = await idOf(rotate(key));
    await repeat(first, 19);
    const refused = await mine.call('POST', `/device/${device}/revoke`, {}, key);
    expect([...coded(refused), refused.body.detail]).toEqual([
      ...[409, 'CONFLICT', expect.stringContaining('20 changes that you requested wait')],
    ]);
    expect(refused.body.detail).toContain('the maximum for an API key or an agent');
    // In place of the first one.
    expect(coded(await rotate(key))).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect((await show(first)).status).toBe('outdated');
    expect(coded(await rotate(await makeKey()))).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect((await lower()).change_id).toEqual(expect.any(String));
    expect(coded(await mine.call('POST', `/device/${device}/revoke`, {}, key))).toEqual([409, 'CONFLICT']);
  });

  it('of keys and agents wait up to 150 of the tenant, those of people up to 200', async () => {
    const { change_id: id } = await lower();
    await repeat(id, 149, ofAnotherUser);
    const refused = await rotate(key);
    expect([...coded(refused), refused.body.detail]).toEqual([
      ...[409, 'CONFLICT', expect.stringContaining('150 changes of the tenant wait')],
    ]);
    expect((await lower(as('admin'))).change_id).toEqual(expect.any(String));
    await refuse(id);
    await repeat((await lower()).change_id, 49, ofAnotherUser);
    const device2 = (await mine.register({ device_type: 'door_lock' })).device_id;
    const wide = { action: 'unlock', paramSchema: { type: 'object', properties: { force: {} } } };
    const put = () => mine.call('POST', `/devices/${device2}/manifest`, { capabilities: [wide] });
    const last = await put();
    expect([...coded(last), last.body.detail]).toEqual([
      ...[409, 'CONFLICT', expect.stringContaining('200 changes of the tenant wait')],
    ]);
    await refuse((await waiting())[0].id);
    expect(coded(await put())).toEqual([409, 'DRY_RUN_REQUIRED']);
  });

  it('of a person wait up to 100', async () => {
    await repeat((await lower()).change_id, 100);
    const confirm_by = { confirm_by: 'requester' };
    const refused = await mine.call('PATCH', '/tenant/policy', confirm_by);
    expect([...coded(refused), refused.body.detail]).toEqual([
      ...[409, 'CONFLICT', expect.stringContaining('the maximum for a person')],
    ]);
    expect(coded(await mine.call('PATCH', '/tenant/policy', confirm_by, as('admin')))).toEqual([
      ...[409, 'DRY_RUN_REQUIRED'],
    ]);
  });

  it('that a shorter time of the policy has ended do not count', async () => {
    await setPolicy(mine, { confirm_ttl_s: 86_400 });
    await repeat(await idOf(rotate(key)), 19);
    const revoke = () => mine.call('POST', `/device/${device}/revoke`, {}, key);
    expect(coded(await revoke())).toEqual([409, 'CONFLICT']);
    await setPolicy(mine, { confirm_ttl_s: 60 });
    service.clock.advance(59_999);
    expect(coded(await revoke())).toEqual([409, 'CONFLICT']);
    service.clock.advance(1);
    expect(await waiting()).toEqual([]);
    expect(coded(await revoke())).toEqual([409, 'DRY_RUN_REQUIRED']);
    // Also after the time of the policy has become longer again.
    await setPolicy(mine, { confirm_ttl_s: 86_400 });
    expect(coded(await rotate(key))).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(await waiting()).toHaveLength(2);
  });

  it('that are requested at the same time count for the limit', async () => {
    await repeat(await idOf(rotate(key)), 18);
    const devices = await Promise.all([1, 2, 3].map(() => mine.register({ device_type: 'lock' })));
    const answers = await Promise.all(
      devices.map(({ device_id }) => mine.call('POST', `/device/${device_id}/rotate-secret`, {}, key)),
    );
    expect(answers.map(({ body }) => body.code).sort()).toEqual(['CONFLICT', 'CONFLICT', 'DRY_RUN_REQUIRED']);
  });
});
