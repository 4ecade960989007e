import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { type Confirmer, confirmers } from '../../../../src/domain/policy.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import { callTool, codeOf, mcpClient } from '../../../support/mcp.ts';
import { setPolicy } from '../../../support/safety-policy.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';
import {
  approve,
  as,
  coded,
  confirm,
  device,
  gate,
  lower,
  manifest,
  path,
  percent,
  put,
  refuse,
  SENTENCE,
  show,
  useDevice,
  waiting,
  withGate,
} from '../weaker-manifest.ts';

withTwoTenants();
withGate();

const opens = { expectedState: { open: true } };
/** A UUID that was never a token. */
const NO_TOKEN = '6f1c2f7e-4b0a-4d0e-9a53-2f8f0c1d7b11';

const policy = (confirm_by: Confirmer) => setPolicy(mine, { confirm_by });
const userId = async (role: 'owner' | 'admin') =>
  (await mine.call('GET', '/auth/me', undefined, as(role))).body.user.id;

describe('a manifest that gets weaker', () => {
  it('is not published, but answered with what gets weaker and a token', async () => {
    const before = await manifest();
    const { status, body } = await put([{ action: 'open_gate' }]);
    expect([status, body]).toEqual([
      409,
      {
        status: 'dry_run_required',
        code: 'DRY_RUN_REQUIRED',
        reason: 'The change makes one thing weaker and needs confirmation.',
        dry_run_token: expect.stringMatching(/^[0-9a-f-]{36}$/),
        expires_at: new Date(service.clock.now() + 300_000).toISOString(),
        change_id: expect.any(String),
        preview: {
          weaker: [SENTENCE],
          changes: { 'open_gate.safetyClass': { from: 'CRITICAL', to: 'NORMAL' } },
        },
        request_id: expect.any(String),
      },
    ]);
    expect(await manifest()).toEqual(before);
    expect((await mine.call('POST', `/device/${device}/command`, { action: 'open_gate' })).body.code).toBe(
      'DRY_RUN_REQUIRED',
    );
  });

  it.each<[string, object[], string]>([
    ['by a lower class', [{ action: 'open_gate' }], SENTENCE],
    ['by wider parameters', [gate(percent(60))], 'at most 60 (before: at most 50)'],
    [
      'by another spelling of a critical action',
      [gate(percent(50)), { action: 'Open-Gate' }],
      "spelling of 'open_gate'",
    ],
  ])('%s waits for a confirmation', async (_, capabilities, sentence) => {
    const { status, body } = await put(capabilities);
    expect([status, body.preview.weaker.join(' ')]).toEqual([409, expect.stringContaining(sentence)]);
  });

  it.each<[string, object, string]>([
    ['another expected state', { expectedState: { open: false } }, 'another expected state'],
    ['no preview', { ...opens, supportsDryRun: false }, 'will no longer show what it changes'],
  ])('with %s of a critical action waits for a confirmation, also through removing it', async (_, more, sentence) => {
    const open = gate({ ...percent(50), ...opens });
    const first = await put([open]);
    expect([first.status, (await approve(first.body.change_id)).status]).toEqual([409, 200]);
    for (const way of [[], [{ action: 'wave' }]]) {
      if (way.length > 0) expect((await put(way)).status).toBe(200);
      const { status, body } = await put([gate({ ...percent(50), ...more })]);
      expect([status, body.preview.weaker.join(' ')]).toEqual([409, expect.stringContaining(sentence)]);
      expect((await put([gate({ ...percent(50), ...more, action: 'openGate' })])).status).toBe(409);
    }
    expect((await put([open])).status).toBe(200);
  });

  it('by one new parameter among many higher limits shows that parameter first, and the number of the others', async () => {
    const limits = (maximum: number) =>
      Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`p${n}`, { type: 'integer', maximum }]));
    const schema = (properties: object) => ({ paramSchema: { type: 'object', properties } });
    const lift = (properties: object) => ({ action: 'lift', safetyClass: 'CRITICAL', ...schema(properties) });
    expect((await put([gate(percent(50)), lift(limits(50))])).status).toBe(200);
    const many = lift({ ...limits(60), force: { type: 'boolean' } });
    const { weaker } = (await put([gate(percent(60)), many])).body.preview;
    expect(weaker).toHaveLength(2);
    expect(weaker[0]).toMatch(/^'lift' is CRITICAL .* Parameter 'force' is a new parameter\. .* And 11 more\.$/);
  });

  it('by adding a removed critical action again below its class waits for a confirmation', async () => {
    expect((await put([{ action: 'wave' }])).status).toBe(200);
    expect((await put([])).status).toBe(200);
    const { status, body } = await put([{ action: 'openGate' }]);
    expect([status, body.preview.weaker]).toEqual([
      409,
      [
        "'openGate' will need no confirmation: it is a spelling of 'open_gate', which was CRITICAL when it was removed, and becomes NORMAL.",
      ],
    ]);
    expect((await put([gate(percent(50))])).status).toBe(200);
    expect(Object.keys(await manifest()).sort()).toEqual([
      'capabilities',
      'category',
      'deviceId',
      'tenantId',
      'version',
    ]);
  });

  it('as the first one of the tenant waits if a critical action loses the preview of the automatic one', async () => {
    const lock = (await mine.register({ device_type: 'lock' })).device_id;
    const register = (more: object) =>
      mine.call('POST', `/devices/${lock}/manifest`, { capabilities: [{ action: 'unlock', ...more }] });
    const without = await register({});
    expect(without.body.preview.weaker).toContain(
      "'unlock' is CRITICAL and its confirmation will no longer show what it changes.",
    );
    const kept = await register({ supportsDryRun: true, expectedState: { locked: false } });
    expect(kept.status).toBe(201);
  });

  it('as the first one of the tenant, compared with the automatic one, waits too', async () => {
    await useDevice('door_lock');
    const wide = { action: 'unlock', paramSchema: { type: 'object', properties: { force: {} } } };
    const { status, body } = await mine.call('POST', path(), { capabilities: [wide] });
    expect([status, body.preview.weaker.slice(0, 1)]).toEqual([
      409,
      [expect.stringContaining("'unlock' is CRITICAL and accepts")],
    ]);
    const applied = await approve(body.change_id);
    expect([applied.status, applied.body.result.version]).toEqual([200, 2]);
    expect((await manifest()).capabilities[0]).toMatchObject({ action: 'unlock', paramSchema: wide.paramSchema });
  });

  it('is answered as before where it is refused anyway', async () => {
    expect(coded(await mine.call('PUT', path(), { version: 9, capabilities: [] }))).toEqual([409, 'CONFLICT']);
    expect(coded(await mine.call('POST', path(), { capabilities: [] }))).toEqual([409, 'CONFLICT']);
    const { version } = await manifest();
    await mine.call('POST', `/device/${device}/revoke`, {});
    const answer = await mine.call('PUT', path(), { version, capabilities: [{ action: 'open_gate' }] });
    expect(coded(answer)).toEqual([403, 'DEVICE_REVOKED']);
    expect(await waiting()).toEqual([]);
  });

  it('does not leave out more critical actions than are remembered', async () => {
    const many = (prefix: string) => Array.from({ length: 100 }, (_, n) => gate({ action: `${prefix}${n}` }));
    for (const prefix of ['a', 'b']) expect((await put(many(prefix))).status).toBe(200);
    // `open_gate` and 199 of the others.
    expect((await put([gate({ action: 'b0' })])).status).toBe(200);
    expect(coded(await put([]))).toEqual([409, 'CONFLICT']);
  });
});

describe('a change request', () => {
  it('is applied with its token, and names both users in the journal and the audit', async () => {
    const requested = await lower();
    const { status, body } = await confirm(requested.change_id, requested.dry_run_token, as('admin'));
    const published = await manifest();
    expect([status, body]).toEqual([200, { status: 'applied', change_id: requested.change_id, result: published }]);
    expect(published).toMatchObject({ version: 2, capabilities: [{ action: 'open_gate', safetyClass: 'NORMAL' }] });
    const [owner, admin] = [await userId('owner'), await userId('admin')];
    const change = await show(requested.change_id);
    expect(change).toMatchObject({ status: 'applied', requested_by: owner, decided_by: admin, weaker: [SENTENCE] });
    const { entries } = (await mine.call('GET', `/actors/device/${device}/journal`)).body;
    expect(entries[0]).toMatchObject({
      event: 'manifest.update',
      by: admin,
      data: { change: { id: change.id, digest: change.digest, requested_by: owner, weaker: [SENTENCE] } },
    });
    const audit = (await mine.call('GET', '/audit')).body.entries;
    const about = audit.filter((one: { subject: string }) => one.subject === `change:${change.id}`);
    expect(about.map(({ action, by }: Record<string, string>) => [action, by])).toEqual([
      ['confirmChange', admin],
      ['requestChange', owner],
    ]);
    expect(coded(await approve(requested.change_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(coded(await confirm(requested.change_id, requested.dry_run_token))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });

  it('is listed and shown with the requested input, without its token', async () => {
    const { change_id, dry_run_token, expires_at, reason } = await lower();
    const entry = {
      ...{ id: change_id, operation: 'updateManifest', subject: `device:${device}`, status: 'awaiting_confirmation' },
      ...{ reason, weaker: [SENTENCE], digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
      ...{
        requested_by: await userId('owner'),
        requested_with: { kind: 'person' },
        requested_at: expect.any(String),
        expires_at,
      },
      ...{ decided_by: null, decided_at: null, refusal_reason: null },
    };
    expect(await waiting()).toEqual([entry]);
    const shown = await show(change_id);
    expect(shown).toMatchObject({
      ...entry,
      input: { deviceId: device, version: 1, capabilities: [{ action: 'open_gate' }] },
      preview: { weaker: [SENTENCE] },
    });
    expect(JSON.stringify(shown)).not.toContain(dry_run_token);
  });

  it('is not applied with another token, and stays confirmable', async () => {
    const [first, second] = [await lower(), await lower(as('admin'))];
    for (const token of [NO_TOKEN, second.dry_run_token, ''])
      expect(coded(await confirm(first.change_id, token))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect((await manifest()).version).toBe(1);
    expect((await confirm(first.change_id, first.dry_run_token)).status).toBe(200);
  });

  it('expires after the time of the policy', async () => {
    await mine.call('PATCH', '/tenant/policy', { confirm_ttl_s: 60 });
    const requested = await lower();
    service.clock.advance(60_000);
    expect(await show(requested.change_id)).toMatchObject({ status: 'expired' });
    expect(await waiting()).toEqual([]);
    for (const answer of [
      await confirm(requested.change_id, requested.dry_run_token),
      await approve(requested.change_id),
      await refuse(requested.change_id),
    ])
      expect(coded(answer)).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect((await manifest()).version).toBe(1);
  });

  it('is refused with a reason, and is never applied then', async () => {
    const requested = await lower();
    const refused = await refuse(requested.change_id, { reason: 'The gate must stay critical.' }, as('admin'));
    expect([refused.status, refused.body]).toEqual([200, { status: 'refused', change_id: requested.change_id }]);
    expect(await show(requested.change_id)).toMatchObject({
      ...{ status: 'refused', decided_by: await userId('admin'), refusal_reason: 'The gate must stay critical.' },
    });
    expect(coded(await confirm(requested.change_id, requested.dry_run_token))).toEqual([409, 'ILLEGAL_TRANSITION']);
    expect(coded(await refuse(requested.change_id))).toEqual([409, 'ILLEGAL_TRANSITION']);
  });

  it('is decided once by several who decide at the same time', async () => {
    const requested = await lower();
    const { change_id: id, dry_run_token: token } = requested;
    const answers = await Promise.all([
      ...[approve(id), confirm(id, token), approve(id, as('admin')), refuse(id), confirm(id, token, as('admin'))],
    ]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ body }) => body.code === 'ILLEGAL_TRANSITION')).toHaveLength(4);
  });

  it('is repeated with the same Idempotency-Key, where it is requested and where it is confirmed', async () => {
    await useDevice('door_lock');
    const body = { capabilities: [{ action: 'unlock', paramSchema: { type: 'object', properties: { force: {} } } }] };
    const keyed = { headers: { 'idempotency-key': v7() } };
    const first = await mine.call('POST', path(), body, keyed);
    const again = await mine.call('POST', path(), body, keyed);
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([409, 'true']);
    expect({ ...again.body, request_id: 0 }).toEqual({ ...first.body, request_id: 0 });
    expect(await waiting()).toHaveLength(1);
    const approving = { headers: { 'idempotency-key': v7() } };
    const applied = await approve(first.body.change_id, approving);
    const repeated = await approve(first.body.change_id, approving);
    expect([repeated.status, repeated.body]).toEqual([200, applied.body]);
    expect(repeated.headers.get('idempotent-replayed')).toBe('true');
  });

  it('cannot be seen or decided by another tenant', async () => {
    const { change_id: id, dry_run_token: token } = await lower();
    const theirs = { token: other.tokens.owner };
    for (const answer of [
      await mine.call('GET', `/change-requests/${id}`, undefined, theirs),
      ...[await confirm(id, token, theirs), await approve(id, theirs), await refuse(id, {}, theirs)],
    ])
      expect(coded(answer)).toEqual([404, 'NOT_FOUND']);
    expect((await mine.call('GET', '/change-requests', undefined, theirs)).body.changes).toEqual([]);
  });
});

describe('under the policy', () => {
  it('another_principal, only another user confirms, with any token or key of a person', async () => {
    await policy('another_principal');
    const { change_id: id, dry_run_token: token } = await lower();
    expect(coded(await confirm(id, token))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(coded(await approve(id))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(coded(await confirm(id, token, as('user')))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await approve(id, as('admin'))).status).toBe(200);
  });

  it('requester, with the role of the operation', async () => {
    const { change_id: id, dry_run_token: token } = await lower();
    for (const role of ['user', 'viewer'] as const)
      expect(coded(await confirm(id, token, as(role)))).toEqual([403, 'FORBIDDEN_ROLE']);
    expect((await confirm(id, token)).status).toBe(200);
  });

  it.each(confirmers)('%s, no key and no agent decides', async (by) => {
    await policy(by);
    const { change_id: id, dry_run_token: token } = await lower();
    const key = (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes: ['*:*'] }, as('admin'))).body.key;
    for (const credential of [key, await agentToken()]) {
      const sent = { token: credential };
      for (const answer of [await confirm(id, token, sent), await approve(id, sent), await refuse(id, {}, sent)])
        expect(coded(answer)).toEqual([403, 'FORBIDDEN']);
    }
    const client = await mcpClient(service.url, key);
    expect(codeOf(await callTool(client, 'confirm_proto_command', { dry_run_token: token }))).toBe(
      'CONFIRMATION_FAILED',
    );
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names.filter((name) => /change|manifest/.test(name))).toEqual(['get_manifest_capabilities']);
    await client.close();
    expect((await manifest()).version).toBe(1);
  });

  /** A token of an admin that was presented at /mcp. */
  async function agentToken(): Promise<string> {
    const token = await service.member(mine.tenantId, 'admin');
    await (await mcpClient(service.url, token)).close();
    return token;
  }
});

describe('by GraphQL', () => {
  it('a change is requested, listed and confirmed in the same way', async () => {
    const query = async (text: string, variables: object) => {
      const { body } = await queryGraphql(service, text, { ...as('owner'), variables });
      expect(body.errors).toBeUndefined();
      return body.data;
    };
    const input = { deviceId: device, version: 1, capabilities: [{ action: 'open_gate' }] };
    const { updateManifest: requested } = await query(
      `mutation($input: UpdateManifestInput!) { updateManifest(input: $input) {
        ... on ChangeDryRunRequired { status changeId dryRunToken preview { weaker changes } } } }`,
      { input },
    );
    expect(requested).toMatchObject({ status: 'dry_run_required', preview: { weaker: [SENTENCE] } });
    const { changeRequests } = await query(
      '{ changeRequests(waiting: true) { nodes { id operation subject status weaker } } }',
      {},
    );
    expect(changeRequests.nodes).toMatchObject([{ id: requested.changeId, status: 'AWAITING_CONFIRMATION' }]);
    const { changeRequest } = await query(
      'query($id: ID!) { changeRequest(changeId: $id) { input preview { weaker } } }',
      {
        id: requested.changeId,
      },
    );
    expect(changeRequest).toMatchObject({ input: { version: 1 }, preview: { weaker: [SENTENCE] } });
    const { confirmChange } = await query(
      'mutation($input: ConfirmChangeInput!) { confirmChange(input: $input) { ... on AppliedChange { status result } } }',
      { input: { changeId: requested.changeId, dryRunToken: requested.dryRunToken } },
    );
    expect(confirmChange).toMatchObject({ status: 'applied', result: { version: 2 } });
  });
});
