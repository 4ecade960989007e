import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { blockHash } from '../../../../src/domain/audit-chain.ts';
import { type HttpService, startHttpServiceOn } from '../../../support/http-service.ts';
import { openPglite, openPostgres } from '../../../support/store.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const DAY = 86_400_000;
let service: HttpService;
let mine: TestTenant;
let operator: string;
let sql: (text: string, ...values: (string | number)[]) => Promise<unknown>;
let close: () => Promise<void>;
beforeAll(async () => {
  const serverUrl = inject('postgresUrl');
  const opened = serverUrl ? await openPostgres(serverUrl) : await openPglite();
  const { database, store } = opened.backend;
  sql = (text, ...values) => database.write({ text, values });
  service = await startHttpServiceOn(store, {}, async (userId, { tenantId, role }) => {
    await sql(
      'update users set tenant_id = coalesce($2, tenant_id), role = coalesce($3, role) where id = $1',
      ...[userId, tenantId ?? null, role ?? null].map((value) => value as string),
    );
  });
  close = opened.close;
  operator = await service.token(v7(), { scope: 'platform:admin' });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
});
afterAll(async () => {
  await service.close();
  await close();
});

const verify = async (query = '') => (await mine.call('GET', `/audit/verify${query}`)).body;
const act = async (times = 1) => {
  for (let n = 0; n < times; n++) await mine.call('POST', '/homes', { home_name: 'Cabin' });
};
const HEAD = /^\d+:[0-9a-f]{64}:\d+$/;
/** Sets the times of what the tenant has written back. */
const age = async (days: number) => {
  for (const table of ['audit', 'journal'])
    await sql(`update ${table} set at = at - $2 where tenant_id = $1`, mine.tenantId, days * DAY);
};
/** Deletes the first blocks of the tenant with their entries as retention does. */
async function removeTo(sequence: number): Promise<void> {
  await sql(
    `update audit_heads h set removed_sequence = b.sequence, removed_position = b.position, removed_hash = b.hash,
        removed_entries = b.entries, removed_first_at = b.first_at, removed_last_at = b.last_at,
        removed_digest = b.digest, removed_previous = b.previous
      from audit_blocks b where b.tenant_id = $1 and b.sequence = $2 and h.tenant_id = $1`,
    ...[mine.tenantId, sequence],
  );
  for (const table of ['audit', 'journal']) {
    await sql(
      `delete from ${table} e using audit_blocks b
        where e.tenant_id = $1 and b.tenant_id = $1 and b.sequence = $2 and e.position <= b.position`,
      ...[mine.tenantId, sequence],
    );
  }
  await sql('delete from audit_blocks where tenant_id = $1 and sequence <= $2', mine.tenantId, sequence);
  await sql(
    `insert into pruning (last_at, expired_before) values ($1, $1)
      on conflict (one) do update set expired_before = excluded.expired_before`,
    service.clock.now() + 400 * DAY,
  );
}
/** Writes the chain from a block on again, with consistent hashes. */
async function rewriteFrom(sequence: number, previous: string): Promise<void> {
  let before = previous;
  for (const block of await service.store.auditChain.blocks(mine.tenantId, sequence - 1, 100)) {
    const hash = blockHash({ ...block, tenantId: mine.tenantId, previous: before });
    await sql(
      'update audit_blocks set previous = $3, hash = $4 where tenant_id = $1 and sequence = $2',
      ...[mine.tenantId, block.sequence, before, hash],
    );
    await sql('update audit_heads set hash = $2 where tenant_id = $1', mine.tenantId, hash);
    before = hash;
  }
}

describe('the verification of the audit log', () => {
  it('seals what was written, and finds it intact', async () => {
    await mine.register();
    await act(3);
    const first = await verify();
    expect(first).toMatchObject({ intact: true, problem: null, blocks: 1, expired: 0, unsealed: 0, next: null });
    expect(first.entries).toBeGreaterThanOrEqual(5);
    expect(first.head).toMatch(HEAD);
    await act();
    expect(await verify()).toMatchObject({ intact: true, blocks: 2, entries: first.entries + 1 });
    expect(await verify(`?from=${first.head}`)).toMatchObject({ intact: true, blocks: 1, entries: 1 });
  });

  it('seals all tenants and the service in the background', async () => {
    await act();
    await service.services.auditChain.sealAll();
    const { last } = await service.store.auditChain.state(mine.tenantId);
    expect(last?.sequence).toBe(1);
    await service.call('GET', '/v1/admin/tenants', { token: operator });
    const { body } = await service.call('GET', '/v1/audit/verify?platform=true', { token: operator });
    expect(body).toMatchObject({ intact: true, problem: null });
    expect(body.entries).toBeGreaterThan(0);
  });

  const damages: [string, string, RegExp][] = [
    [
      'a changed row',
      `update audit set outcome = 'FORBIDDEN' where tenant_id = $1 and action = 'createHome'`,
      /^Entries of block 1 /,
    ],
    ['a removed row', `delete from audit where tenant_id = $1 and action = 'createRoom'`, /^Entries of block 1 /],
    [
      'a changed transition',
      `update journal set data = '{"x": 1}' where tenant_id = $1 and by->>'kind' = 'user'`,
      /^Entries of block 1 /,
    ],
    [
      'a removed transition',
      `delete from journal where tenant_id = $1 and by->>'kind' = 'user' and kind = 'device'`,
      /^Entries of block 1 /,
    ],
    [
      'rows in another order',
      `update audit set position = (select min(position) from audit where tenant_id = $1) where tenant_id = $1 and action = 'createRoom'`,
      /^Entries of block 1 /,
    ],
    ['a changed block', `update audit_blocks set entries = entries - 1 where tenant_id = $1`, /^Block 1 was changed/],
    [
      'a removed block at the end',
      `delete from audit_blocks where tenant_id = $1 and sequence = 2`,
      /^Blocks 2 to 2 are missing/,
    ],
    [
      'a removed block before it',
      `delete from audit_blocks where tenant_id = $1 and sequence = 1`,
      /^Block 1 is missing/,
    ],
    ['a removed head', `delete from audit_heads where tenant_id = $1`, /^The head of the chain is missing/],
  ];
  it.each(damages)('finds %s', async (_, damage, problem) => {
    await mine.register();
    await act();
    await verify();
    await act();
    const { body: intact } = await mine.call('GET', '/audit/verify');
    expect(intact).toMatchObject({ intact: true, blocks: 2 });
    await sql(damage, mine.tenantId);
    const { status, body } = await mine.call('GET', '/audit/verify');
    expect(status).toBe(200);
    expect(body).toMatchObject({ intact: false, next: null });
    expect(body.problem).toMatch(problem);
  });

  it('finds a row that was added among sealed ones', async () => {
    await act();
    await verify();
    const text = `insert into audit (id, tenant_id, at, by, via, action, subject, outcome, request_id, position)
      select $2, tenant_id, at, by, via, action, subject, outcome, request_id, position - 1 from audit
      where tenant_id = $1 and action = 'createHome' limit 1`;
    await sql(text, mine.tenantId, v7());
    expect(await verify()).toMatchObject({ intact: false });
  });

  it('finds entries that were removed at the end with everything about them, and a chain written again, by a head kept elsewhere', async () => {
    await act();
    await verify();
    await act();
    const { head } = await verify();
    await sql(
      'delete from audit a using audit_blocks b where a.tenant_id = $1 and b.tenant_id = $1 and b.sequence = 1 and a.position > b.position',
      mine.tenantId,
    );
    await sql('delete from audit_blocks where tenant_id = $1 and sequence = 2', mine.tenantId);
    await sql(
      'update audit_heads h set sequence = 1, position = b.position, hash = b.hash from audit_blocks b where b.tenant_id = $1 and h.tenant_id = $1',
      mine.tenantId,
    );
    expect(await verify()).toMatchObject({ intact: true });
    expect((await verify(`?from=${head}`)).problem).toMatch(/^The chain ends before block 2/);
    await act();
    expect((await verify(`?from=${head}`)).problem).toMatch(/^Block 2 does not have the hash/);
  });

  it('goes on after retention, which deletes from the beginning', async () => {
    await act(2);
    await age(21);
    const { head: oldest } = await verify();
    await act();
    await sql(`update audit set at = at - $2 where tenant_id = $1 and at > $3`, ...tenDaysAgo(20));
    const { head: old } = await verify();
    await act();
    const { head } = await verify();
    await service.store.retention.prune(service.clock.now(), { commands: 10, journal: 10 }, 100);
    const ten = 'retention_days=10';
    expect(await verify(`?${ten}`)).toMatchObject({ intact: true, problem: null, blocks: 1, entries: 1, head });
    expect(await verify(`?${ten}&from=${old}`)).toMatchObject({ intact: true });
    expect((await verify(`?${ten}&from=${oldest}`)).problem).toMatch(/^Block 1 is no longer stored/);
    // As if the retention was raised since.
    expect((await verify()).problem).toMatch(/^Block 2 was deleted before its entries expired/);
    await sql(`update audit set outcome = 'x' where tenant_id = $1`, mine.tenantId);
    expect(await verify(`?${ten}`)).toMatchObject({ intact: false });
  });

  const tenDaysAgo = (days: number): [string, number, number] => [
    mine.tenantId,
    days * DAY,
    service.clock.now() - 5 * DAY,
  ];

  it('finds blocks that were deleted before their entries expired', async () => {
    await act();
    const { head } = await verify();
    await act();
    await verify();
    await act();
    await verify();
    await removeTo(2);
    const early = /^Block 2 was deleted before its entries expired: the newest one is of 20/;
    expect((await verify()).problem).toMatch(early);
    expect((await verify('?retention_days=1')).problem).toMatch(early);
    const forgeries: [string, RegExp][] = [
      ['removed_last_at = 0, removed_first_at = 0', /^The header of block 2, the newest deleted one, was changed/],
      ['removed_entries = null', /^The header of block 2, the newest deleted one, is missing/],
    ];
    for (const [change, problem] of forgeries) {
      await sql(`update audit_heads set ${change} where tenant_id = $1`, mine.tenantId);
      expect((await verify()).problem).toMatch(problem);
    }
    // With a new chain from there on; then a head that was kept shows it.
    const removedBlock = {
      ...{ sequence: 2, position: 1, entries: 1, firstAt: 0, lastAt: 0, digest: 'd', previous: 'p' },
    };
    const hash = blockHash({ ...removedBlock, tenantId: mine.tenantId });
    await sql(
      `update audit_heads set removed_hash = $2, removed_position = 1, removed_entries = 1, removed_first_at = 0,
          removed_last_at = 0, removed_digest = 'd', removed_previous = 'p' where tenant_id = $1`,
      ...[mine.tenantId, hash],
    );
    await rewriteFrom(3, hash);
    expect(await verify()).toMatchObject({ intact: true });
    expect((await verify(`?from=${head}`)).problem).toMatch(/^Block 1 was deleted before its entries expired/);
  });

  it('verifies entries within the retention, also if the database claims that they have expired', async () => {
    await act();
    await verify();
    const text = `insert into pruning (last_at, expired_before) values ($1, $1)
      on conflict (one) do update set expired_before = excluded.expired_before`;
    await sql(text, service.clock.now() + 400 * DAY);
    await sql(`delete from audit where tenant_id = $1 and action = 'createHome'`, mine.tenantId);
    expect(await verify()).toMatchObject({ intact: false, expired: 0 });
  });

  it('is for admins of the tenant and for platform operators, who are audited', async () => {
    const user = { token: mine.tokens.user };
    expect((await mine.call('GET', '/audit/verify', undefined, user)).status).toBe(403);
    const other = await makeTestTenant(service);
    expect((await other.call('GET', `/audit/verify?tenant_id=${mine.tenantId}`)).body.code).toBe('FORBIDDEN');
    expect((await mine.call('GET', '/audit/verify?platform=true')).body.code).toBe('FORBIDDEN');
    const path = `/v1/audit/verify?tenant_id=${mine.tenantId}`;
    expect((await service.call('GET', path, { token: operator })).body.intact).toBe(true);
    expect((await mine.call('GET', '/audit?action=verifyAudit')).body.entries).toMatchObject([
      ...[{ outcome: 'done' }, { outcome: 'FORBIDDEN' }, { outcome: 'FORBIDDEN_ROLE' }],
    ]);
  });
});
