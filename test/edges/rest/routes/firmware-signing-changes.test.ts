import { beforeEach, describe, expect, it } from 'vitest';
import { type FirmwareTestKey, firmwareTestKey, sha256 } from '../../../support/firmware-key.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import type { CallResult } from '../../../support/http-service.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

// Who may make the rules for signed firmware weaker: the policy decides, as for other critical changes.

withTwoTenants();

const SIGNING = '/firmware/signing';
const CONTENT = Buffer.from('firmware of a light');
const EXTERNAL = { url: 'https://example.com/light.bin', checksum: sha256(CONTENT), size: CONTENT.length };

let key: FirmwareTestKey;
let next: FirmwareTestKey;
beforeEach(async () => {
  [key, next] = [firmwareTestKey(), firmwareTestKey()];
  await setPolicy(mine, { confirm_by: 'another_principal' });
});

const add = (one: FirmwareTestKey) =>
  mine.call('POST', `${SIGNING}/keys`, { public_key: one.publicKey, name: 'Release key' });
const require = (signature_required: boolean) => mine.call('PATCH', SIGNING, { signature_required });
const signing = async () => (await mine.call('GET', SIGNING)).body.signing;
const keyIds = async () => (await signing()).keys.map(({ key_id }: { key_id: string }) => key_id);
const approve = (id: string, token = mine.tokens.admin) =>
  mine.call('POST', `/change-requests/${id}/approve`, undefined, { token });
const coded = ({ status, body }: CallResult) => [status, body.code];
const statusOf = async (id: string) => (await mine.call('GET', `/change-requests/${id}`)).body.change.status;
const auditOf = async (subject: string) => (await mine.call('GET', `/audit?subject=${subject}`)).body.entries;

describe('under `another_principal`', () => {
  it('stricter rules apply at once: the first key, a removed key, and signatures that become required', async () => {
    expect((await require(false)).status).toBe(200);
    expect((await add(key)).status).toBe(201);
    expect(await signing()).toMatchObject({ signature_required: true });
    expect((await mine.call('DELETE', `${SIGNING}/keys/${key.keyId}`)).status).toBe(204);
    expect((await require(true)).status).toBe(200);
    expect((await mine.call('GET', '/change-requests')).body.changes).toEqual([]);
  });

  it('another key waits for another user, because more firmware counts as signed', async () => {
    await add(key);
    const asked = await add(next);
    expect(coded(asked)).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(asked.body.preview).toEqual({
      weaker: [`Firmware that is signed with the key ${next.keyId} can be released, offered and sent to devices.`],
      changes: { firmware_key: { from: null, to: { key_id: next.keyId, name: 'Release key' } } },
    });
    expect(await keyIds()).toEqual([key.keyId]);
    expect(coded(await approve(asked.body.change_id, mine.tokens.owner))).toEqual([403, 'CONFIRMATION_FAILED']);
    const applied = await approve(asked.body.change_id);
    expect([applied.status, applied.body.result.key_id]).toEqual([200, next.keyId]);
    expect((await keyIds()).toSorted()).toEqual([key.keyId, next.keyId].toSorted());
    expect(await auditOf(`firmware-key:${next.keyId}`)).toMatchObject([{ action: 'addFirmwareKey' }]);
  });

  it('another key waits also while no signature is required, because it makes them required again', async () => {
    await add(key);
    await approve((await require(false)).body.change_id);
    const asked = await add(next);
    expect([...coded(asked), asked.body.preview.changes]).toEqual([
      ...[409, 'DRY_RUN_REQUIRED'],
      {
        firmware_key: { from: null, to: { key_id: next.keyId, name: 'Release key' } },
        signature_required: { from: false, to: true },
      },
    ]);
    const { signature_required, keys } = await signing();
    expect([signature_required, keys.length]).toEqual([false, 1]);
    expect((await approve(asked.body.change_id)).status).toBe(200);
    expect((await signing()).signature_required).toBe(true);
  });

  it('it waits also after the only key was removed', async () => {
    await add(key);
    await mine.call('DELETE', `${SIGNING}/keys/${key.keyId}`);
    expect(coded(await add(next))).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(await keyIds()).toEqual([]);
  });

  it('signatures stay required until another user confirms that they are not', async () => {
    await add(key);
    const asked = await require(false);
    expect([...coded(asked), asked.body.preview.changes]).toEqual([
      ...[409, 'DRY_RUN_REQUIRED', { signature_required: { from: true, to: false } }],
    ]);
    expect((await signing()).signature_required).toBe(true);
    const applied = await approve(asked.body.change_id);
    expect([applied.status, applied.body.result.signing.signature_required]).toEqual([200, false]);
    expect((await signing()).signature_required).toBe(false);
    expect(await auditOf('firmware-signatures:not-required')).toMatchObject([{ action: 'setFirmwareSigning' }]);
  });

  it('a confirmation after other keys were registered shows the change again', async () => {
    await add(key);
    const asked = await require(false);
    await approve((await add(next)).body.change_id);
    const again = await approve(asked.body.change_id);
    expect(coded(again)).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(await statusOf(asked.body.change_id)).toBe('outdated');
    expect((await approve(again.body.change_id)).status).toBe(200);
  });

  it('a confirmation of a key that is registered already ends the request', async () => {
    await add(key);
    const asked = await add(next);
    await service.store.firmwareSigning.addKey(
      mine.tenantId,
      { keyId: next.keyId, publicKey: next.publicKey, name: 'Next', addedBy: mine.userId, createdAt: 1 },
      10,
    );
    expect(coded(await approve(asked.body.change_id))).toEqual([409, 'CONFLICT']);
    expect(await statusOf(asked.body.change_id)).toBe('outdated');
  });

  it('a request in GraphQL waits in the same way', async () => {
    await add(key);
    const text = `mutation { setFirmwareSigning(input: { signatureRequired: false }) {
      __typename ... on ChangeDryRunRequired { preview { weaker } } } }`;
    const { data } = (await queryGraphql(service, text, { token: mine.tokens.owner })).body;
    expect(data.setFirmwareSigning).toMatchObject({
      __typename: 'ChangeDryRunRequired',
      preview: { weaker: [expect.stringContaining('Firmware without a signature of a registered key')] },
    });
  });
});

it('under `requester` a person changes keys and setting at once', async () => {
  await setPolicy(mine, { confirm_by: 'requester' });
  expect([(await add(key)).status, (await add(next)).status, (await require(false)).status]).toEqual([201, 201, 200]);
});

describe('a signature of a released version', () => {
  let agent: { token: string };
  let id: string;
  beforeEach(async () => {
    await setPolicy(mine, { confirm_by: 'person' });
    agent = { token: (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['all'] })).body.key };
    const draft = { device_type: 'smart_light', version: '1.5.0', ...EXTERNAL };
    id = (await mine.call('POST', '/firmware/release', draft)).body.id;
    expect((await mine.call('POST', `/firmware/${id}/release`, {})).status).toBe(200);
    await add(key);
  });

  const sign = (one: FirmwareTestKey) =>
    mine.call('POST', `/firmware/${id}/release`, { signature: one.sign(CONTENT) }, agent);
  const check = async () =>
    (await mine.call('POST', '/firmware/check', { device_type: 'smart_light', current_version: '1.0.0' })).body;

  it.each([true, false])('is confirmed by a person where signatures are required: %s', async (required) => {
    await require(required);
    const asked = await sign(key);
    expect([...coded(asked), asked.body.preview]).toEqual([
      ...[409, 'DRY_RUN_REQUIRED'],
      {
        weaker: [
          expect.stringContaining('Version 1.5.0 is offered to 100 % of the devices'),
          `Devices that need a signature install it as well: it is signed with the key ${key.keyId}.`,
        ],
        changes: { key_id: { from: null, to: key.keyId } },
      },
    ]);
    expect((await check()).signature).toBeUndefined();
    expect((await approve(asked.body.change_id)).status).toBe(200);
    expect(await check()).toMatchObject({ update_available: true, key_id: key.keyId });
    // Nothing changes for devices.
    expect((await sign(key)).status).toBe(200);
  });

  it('of one registered key is replaced by one of another in the same way', async () => {
    await mine.call('POST', `/firmware/${id}/release`, { signature: key.sign(CONTENT) });
    await add(next);
    const asked = await sign(next);
    expect([...coded(asked), asked.body.preview.changes]).toEqual([
      ...[409, 'DRY_RUN_REQUIRED', { key_id: { from: key.keyId, to: next.keyId } }],
    ]);
    expect(await check()).toMatchObject({ key_id: key.keyId });
    expect((await approve(asked.body.change_id)).status).toBe(200);
    expect(await check()).toMatchObject({ key_id: next.keyId });
  });

  it('is named in the preview of a draft, and of an offer to more devices', async () => {
    const draft = { device_type: 'smart_light', version: '1.6.0', ...EXTERNAL };
    const signature = key.sign(CONTENT, { version: '1.6.0' });
    const signed = (await mine.call('POST', '/firmware/release', { ...draft, signature })).body.id;
    const roll = (rollout_percent: number, sent?: object) =>
      mine.call('POST', `/firmware/${signed}/release`, { rollout_percent }, sent);
    const named = expect.stringContaining(`it is signed with the key ${key.keyId}`);
    const first = (await roll(10, agent)).body;
    expect(first.preview.weaker).toEqual([expect.stringContaining('10 % of the devices'), named]);
    expect(first.preview.changes.key_id).toEqual({ from: null, to: key.keyId });
    expect((await approve(first.change_id)).status).toBe(200);
    const more = (await roll(50, agent)).body;
    expect(more.preview).toEqual({
      weaker: [expect.stringContaining('50 % of the devices'), named],
      changes: { rollout_percent: { from: 10, to: 50 } },
    });
  });

  it('ends a request to release it whose preview named its key, if the key is removed', async () => {
    await require(false);
    await mine.call('POST', `/firmware/${id}/release`, { signature: key.sign(CONTENT), rollout_percent: 10 });
    const asked = await mine.call('POST', `/firmware/${id}/release`, { rollout_percent: 50 }, agent);
    await mine.call('DELETE', `${SIGNING}/keys/${key.keyId}`);
    expect(coded(await approve(asked.body.change_id))).toEqual([409, 'CONFLICT']);
    expect(await statusOf(asked.body.change_id)).toBe('outdated');
  });

  it('of a removed key is replaced by one of another key in the same way', async () => {
    await mine.call('POST', `/firmware/${id}/release`, { signature: key.sign(CONTENT) });
    await add(next);
    await mine.call('DELETE', `${SIGNING}/keys/${key.keyId}`);
    expect(coded(await sign(next))).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect((await check()).update_available).toBe(false);
  });
});
