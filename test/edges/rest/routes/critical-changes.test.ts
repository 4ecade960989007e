import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import { queryGraphql } from '../../../support/graphql.ts';
import type { CallResult } from '../../../support/http-service.ts';
import { callTool, mcpClient, structured } from '../../../support/mcp.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

// Device keys, revocation and firmware releases are critical changes: who may not confirm them requests them.

withTwoTenants();

const FIRMWARE = { url: 'https://firmware.example.com/light.bin', checksum: 'ab'.repeat(32) };

let device: string;
let key: string;
let key2: string;
beforeEach(async () => {
  device = (await mine.register({ device_type: 'lock' })).device_id;
  const made = (name: string) => mine.call('POST', '/auth/api-keys', { name, scopes: ['all'] });
  [key, key2] = [(await made('agent')).body.key, (await made('other')).body.key];
});

const policy = (confirm_by: string) => mine.call('PATCH', '/tenant/policy', { confirm_by });
const approve = (id: string, sent: object = {}) => mine.call('POST', `/change-requests/${id}/approve`, undefined, sent);
const show = async (id: string) => (await mine.call('GET', `/change-requests/${id}`)).body.change;
const record = async () => (await mine.call('GET', `/devices/${device}`)).body.device;
const coded = ({ status, body }: CallResult) => [status, body.code];
const draft = async (version = '1.0.0') =>
  (await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version, ...FIRMWARE })).body.id;
const statusOfRelease = async (id: string) => (await mine.call('GET', `/firmware/${id}`)).body.release.status;

/** The requests, what each has changed, and the sentence of its preview. */
const changes = {
  'rotate-secret': {
    request: (sent: object) => mine.call('POST', `/device/${device}/rotate-secret`, {}, sent),
    isDone: async () => (await record()).key_version === 2,
    sentence: ' gets a new key, and the current one ends after 24 hours.',
  },
  revoke: {
    request: (sent: object) => mine.call('POST', `/device/${device}/revoke`, {}, sent),
    isDone: async () => (await record()).revoked,
    sentence: ' is revoked:',
  },
  reinstate: {
    prepare: () => mine.call('POST', `/device/${device}/revoke`, {}),
    request: (sent: object) => mine.call('POST', `/device/${device}/reinstate`, { reason: 'Found' }, sent),
    isDone: async () => !(await record()).revoked,
    sentence: ' can connect again, with a new key.',
  },
  release: {
    prepare: async () => {
      release = await draft();
    },
    request: (sent: object) => mine.call('POST', `/firmware/${release}/release`, {}, sent),
    isDone: async () => (await statusOfRelease(release)) === 'released',
    sentence: `Version 1.0.0 is offered to 100 % of the devices of the type smart_light, from firmware.example.com with the checksum ${FIRMWARE.checksum}.`,
  },
};
let release = '';

describe.each(Object.entries(changes))('%s', (_, { request, isDone, sentence, ...more }) => {
  beforeEach(() => ('prepare' in more ? more.prepare() : undefined));

  it('of a key under `person` waits for a person, who gets the answer', async () => {
    await policy('person');
    const asked = await request({ token: key });
    expect([...coded(asked), asked.body.reason]).toEqual([
      409,
      'DRY_RUN_REQUIRED',
      'The change is critical and needs confirmation.',
    ]);
    expect(asked.body.preview.weaker).toEqual([expect.stringContaining(sentence)]);
    expect(JSON.stringify(asked.body)).not.toContain('secret"');
    expect(await isDone()).toBe(false);

    const { change_id, dry_run_token } = asked.body;
    for (const token of [key, key2]) {
      const confirmed = mine.call('POST', `/change-requests/${change_id}/confirm`, { dry_run_token }, { token });
      expect(coded(await confirmed)).toEqual([403, 'CONFIRMATION_FAILED']);
      expect(coded(await approve(change_id, { token }))).toEqual([403, 'CONFIRMATION_FAILED']);
    }
    expect(coded(await approve(change_id, { token: mine.tokens.user }))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect(await isDone()).toBe(false);
    const [listed] = (await mine.call('GET', '/change-requests?waiting=true')).body.changes;
    expect(listed).toMatchObject({ id: change_id, requested_by: mine.userId });

    const applied = await approve(change_id);
    expect([applied.status, applied.body.status]).toEqual([200, 'applied']);
    expect(await isDone()).toBe(true);
    expect(await show(change_id)).toMatchObject({ status: 'applied', decided_by: mine.userId });
    expect(coded(await approve(change_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });

  it('of a person under `person` is done at once', async () => {
    await policy('person');
    expect((await request({})).status).toBe(200);
    expect(await isDone()).toBe(true);
    expect((await mine.call('GET', '/change-requests')).body.changes).toEqual([]);
  });

  it('of a key under `requester` is done at once', async () => {
    expect((await request({ token: key })).status).toBe(200);
    expect(await isDone()).toBe(true);
  });

  it('under `another_principal` waits for another user', async () => {
    await policy('another_principal');
    const asked = await request({});
    expect(coded(asked)).toEqual([409, 'DRY_RUN_REQUIRED']);
    for (const token of [mine.tokens.owner, key])
      expect(coded(await approve(asked.body.change_id, { token }))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect((await approve(asked.body.change_id, { token: mine.tokens.admin })).status).toBe(200);
    expect(await isDone()).toBe(true);
  });

  it('is refused without the scope and the role', async () => {
    await policy('person');
    const narrow = (await mine.call('POST', '/auth/api-keys', { name: 'n', scopes: ['read:devices'] })).body.key;
    expect(coded(await request({ token: narrow }))).toEqual([403, 'INSUFFICIENT_SCOPE']);
    expect(coded(await request({ token: mine.tokens.user }))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await mine.call('GET', '/change-requests')).body.changes).toEqual([]);
  });

  it('is answered with the same change request for the same Idempotency-Key', async () => {
    await policy('person');
    const sent = { token: key, headers: { 'idempotency-key': v7() } };
    const [first, second] = [await request(sent), await request(sent)];
    expect([second.status, second.body.change_id]).toEqual([409, first.body.change_id]);
    const decided = { headers: { 'idempotency-key': v7() } };
    const [applied, replayed] = [
      await approve(first.body.change_id, decided),
      await approve(first.body.change_id, decided),
    ];
    expect([applied.status, replayed.body]).toEqual([200, applied.body]);
  });
});

describe('a critical change', () => {
  it('is previewed again if its subject has changed since', async () => {
    await policy('person');
    const asked = await mine.call('POST', `/device/${device}/rotate-secret`, {}, { token: key });
    await mine.call('POST', `/device/${device}/rotate-secret`, {});
    const again = await approve(asked.body.change_id);
    expect([again.status, again.body.code, again.body.preview.changes]).toEqual([
      409,
      'DRY_RUN_REQUIRED',
      { key_version: { from: 2, to: 3 } },
    ]);
    expect((await record()).key_version).toBe(2);
    expect((await show(asked.body.change_id)).status).toBe('outdated');
    expect(await show(again.body.change_id)).toMatchObject({
      status: 'awaiting_confirmation',
      operation: 'rotateSecret',
    });
    expect((await approve(again.body.change_id)).body.result).toMatchObject({ key_version: 3 });
  });

  it('that has become pointless is outdated', async () => {
    await policy('person');
    const asked = await mine.call('POST', `/device/${device}/revoke`, {}, { token: key });
    await mine.call('POST', `/device/${device}/revoke`, {});
    expect(coded(await approve(asked.body.change_id))).toEqual([409, 'CONFLICT']);
    expect((await show(asked.body.change_id)).status).toBe('outdated');
  });

  it('is confirmed for the artifact that was previewed', async () => {
    await policy('person');
    const { body } = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version: '2.0.0' });
    const upload = (text: string) =>
      mine.call('PUT', `/firmware/${body.id}/artifact`, Buffer.from(text), {
        headers: { 'content-type': 'application/octet-stream' },
      });
    await upload('good');
    const asked = await mine.call('POST', `/firmware/${body.id}/release`, {}, { token: key });
    expect((await upload('evil')).status).toBe(200);
    expect(coded(await approve(asked.body.change_id))).toEqual([409, 'CONFLICT']);
    expect(await show(asked.body.change_id)).toMatchObject({ status: 'outdated' });
    expect(await statusOfRelease(body.id)).toBe('draft');
    const again = await mine.call('POST', `/firmware/${body.id}/release`, {}, { token: key });
    expect(again.body.preview.weaker).not.toEqual(asked.body.preview.weaker);
    expect((await approve(again.body.change_id)).status).toBe(200);
  });

  it('of a release is requested again by its requester alone after another user has replaced the artifact', async () => {
    await policy('another_principal');
    const { body } = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version: '2.0.0' });
    const admin = { token: mine.tokens.admin };
    const upload = (text: string, sent: object) =>
      mine.call('PUT', `/firmware/${body.id}/artifact`, Buffer.from(text), {
        headers: { 'content-type': 'application/octet-stream' },
        ...sent,
      });
    await upload('good', {});
    const asked = await mine.call('POST', `/firmware/${body.id}/release`, {});
    expect((await upload('evil', admin)).status).toBe(200);
    expect(coded(await approve(asked.body.change_id, admin))).toEqual([409, 'CONFLICT']);
    expect(coded(await approve(asked.body.change_id, admin))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect((await mine.call('GET', '/change-requests?waiting=true')).body.changes).toEqual([]);
    // The request of the other user is one of their own.
    const own = await mine.call('POST', `/firmware/${body.id}/release`, {}, admin);
    expect(coded(await approve(own.body.change_id, admin))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(await statusOfRelease(body.id)).toBe('draft');
  });

  it('of a release is also an offer to more devices, and not one to fewer', async () => {
    const id = await draft();
    const roll = (rollout_percent: number, sent: object = {}) =>
      mine.call('POST', `/firmware/${id}/release`, { rollout_percent }, sent);
    expect((await roll(20)).status).toBe(200);
    await policy('person');
    expect((await roll(10, { token: key })).status).toBe(200);
    const more = await roll(50, { token: key });
    expect([...coded(more), more.body.preview.changes]).toEqual([
      409,
      'DRY_RUN_REQUIRED',
      { rollout_percent: { from: 10, to: 50 } },
    ]);
    expect((await mine.call('POST', `/firmware/${id}/withdraw`, undefined, { token: key })).status).toBe(200);
  });

  it('is in the journal of the device with its requester, and in the audit', async () => {
    await policy('person');
    const { change_id } = (await mine.call('POST', `/device/${device}/rotate-secret`, {}, { token: key })).body;
    await approve(change_id);
    const [entry] = await service.store.actors.journal({ kind: 'device', id: device }, 5);
    expect(entry).toMatchObject({
      event: 'rotate',
      data: { key_version: 2, change: { id: change_id, requested_by: mine.userId, digest: expect.any(String) } },
    });
    const id = await draft();
    const asked = await mine.call('POST', `/firmware/${id}/release`, {}, { token: key });
    const { entries } = (await mine.call('GET', '/audit')).body;
    const actions = entries.map(({ action, subject }: { action: string; subject: string }) => [action, subject]);
    expect(actions).toContainEqual(['requestChange', `change:${asked.body.change_id}`]);
    expect(actions).not.toContainEqual(['releaseFirmware', `firmware:${id}`]);
    await approve(asked.body.change_id, { token: mine.tokens.admin });
    const about = (await mine.call('GET', `/audit?subject=firmware:${id}`)).body.entries;
    expect(about[0]).toMatchObject({ action: 'releaseFirmware', by: (await show(asked.body.change_id)).decided_by });
  });

  it('is decided during maintenance if its operation is allowed then', async () => {
    await policy('person');
    const id = await draft();
    const release = (await mine.call('POST', `/firmware/${id}/release`, {}, { token: key })).body;
    await service.services.setFlag('maintenance_mode', true);
    try {
      const revoke = () => mine.call('POST', `/device/${device}/revoke`, {}, { token: key });
      const first = (await revoke()).body;
      expect((await mine.call('POST', `/change-requests/${first.change_id}/refuse`, {})).status).toBe(200);
      const { change_id, dry_run_token } = (await revoke()).body;
      expect((await mine.call('POST', `/change-requests/${change_id}/confirm`, { dry_run_token })).status).toBe(200);
      expect((await record()).revoked).toBe(true);
      expect(coded(await approve(release.change_id))).toEqual([503, 'MAINTENANCE']);
      const confirmed = { dry_run_token: release.dry_run_token };
      expect(coded(await mine.call('POST', `/change-requests/${release.change_id}/confirm`, confirmed))).toEqual([
        ...[503, 'MAINTENANCE'],
      ]);
    } finally {
      await service.services.setFlag('maintenance_mode', false);
    }
    expect((await approve(release.change_id)).status).toBe(200);
  });

  it('is requested by the tool decommission_device, which changes nothing', async () => {
    await policy('person');
    const client = await mcpClient(service.url, key);
    const answer = await callTool(client, 'decommission_device', { device_id: device, reason: 'Lost' });
    const { change_id } = structured(answer);
    expect(JSON.stringify(answer.content)).toContain('a person or another user to confirm');
    expect((await record()).revoked).toBe(false);
    expect((await approve(change_id)).status).toBe(200);
    expect((await record()).revoked).toBe(true);
    await client.close();
  });

  it('is requested in GraphQL in the same way', async () => {
    await policy('person');
    const input = `input: { id: "${device}" }`;
    const text = `mutation { rotateSecret(${input}) {
      __typename ... on ChangeDryRunRequired { changeId preview { weaker } } } }`;
    const { data } = (await queryGraphql(service, text, { token: key })).body;
    expect(data.rotateSecret.__typename).toBe('ChangeDryRunRequired');
    const approval = `mutation { approveChange(input: { changeId: "${data.rotateSecret.changeId}" }) {
      __typename ... on AppliedChange { result } } }`;
    const applied = (await queryGraphql(service, approval, { token: mine.tokens.owner })).body.data.approveChange;
    expect(applied).toMatchObject({ __typename: 'AppliedChange', result: { key_version: 2 } });
  });
});
