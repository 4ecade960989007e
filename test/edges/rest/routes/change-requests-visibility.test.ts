import { beforeEach, describe, expect, it } from 'vitest';
import type { CallResult } from '../../../support/http-service.ts';
import { mine, withTwoTenants } from '../two-tenants.ts';

// The credentials that refuse a change request, and those that see it.

withTwoTenants();

let lock: string;
beforeEach(async () => {
  lock = (await mine.register({ device_type: 'lock' })).device_id;
});

const makeKey = async (scopes: string[]): Promise<string> =>
  (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes })).body.key;
const policy = (confirm_by: string) => mine.call('PATCH', '/tenant/policy', { confirm_by });
const revoke = async (token: string): Promise<string> =>
  (await mine.call('POST', `/device/${lock}/revoke`, {}, { token })).body.change_id;
const refuse = (id: string, token: string) => mine.call('POST', `/change-requests/${id}/refuse`, {}, { token });
const coded = ({ status, body }: CallResult) => [status, body.code];

describe('a change request under `another_principal`', () => {
  let key: string;
  beforeEach(async () => {
    key = await makeKey(['write:devices', 'execute:commands']);
    await policy('another_principal');
  });

  it('of the owner is not refused by the owner’s key, but withdrawn by the owner', async () => {
    const id = await revoke(mine.tokens.owner);
    expect(coded(await refuse(id, key))).toEqual([403, 'CONFIRMATION_FAILED']);
    const { change } = (await mine.call('GET', `/change-requests/${id}`)).body;
    expect(change.status).toBe('awaiting_confirmation');
    expect((await refuse(id, mine.tokens.owner)).status).toBe(200);
  });

  it('of a key is withdrawn by that key and by its user, and not by another key of the user', async () => {
    const id = await revoke(key);
    const another = await makeKey(['write:devices', 'execute:commands']);
    expect(coded(await refuse(id, another))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect((await refuse(id, key)).status).toBe(200);
    expect((await refuse(await revoke(key), mine.tokens.owner)).status).toBe(200);
  });

  it('is refused by a user who may confirm it', async () => {
    expect((await refuse(await revoke(mine.tokens.owner), mine.tokens.admin)).status).toBe(200);
  });
});

describe('a change request', () => {
  it('is shown to a credential that may read its subject', async () => {
    await policy('person');
    const requester = await makeKey(['all']);
    const ofKeys = await revoke(requester);
    const firmware = {
      device_type: 'smart_light',
      version: '1.0.0',
      url: 'https://firmware.example.com/a',
      checksum: 'ab'.repeat(32),
    };
    const { id } = (await mine.call('POST', '/firmware/release', firmware)).body;
    await mine.call('POST', `/firmware/${id}/release`, {}, { token: requester });
    await mine.call('PATCH', '/tenant/policy', { confirm_by: 'requester' });
    const seen = async (...scopes: string[]) => {
      const token = await makeKey(['read:commands', 'read:manifests', ...scopes]);
      const { changes } = (await mine.call('GET', '/change-requests', undefined, { token })).body;
      return changes.map(({ operation }: { operation: string }) => operation).sort();
    };
    expect(await seen()).toEqual([]);
    expect(await seen('read:devices')).toEqual(['revokeDevice']);
    expect(await seen('read:tenant')).toEqual(['updatePolicy']);
    const token = await makeKey(['read:commands', 'read:manifests', 'read:firmware']);
    expect(coded(await mine.call('GET', `/change-requests/${ofKeys}`, undefined, { token }))).toEqual([
      404,
      'NOT_FOUND',
    ]);
    expect(await seen('read:firmware')).toEqual(['releaseFirmware']);
  });
});
