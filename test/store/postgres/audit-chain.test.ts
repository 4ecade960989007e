import { expect, it } from 'vitest';
import { GENESIS_HASH } from '../../../src/domain/audit-chain.ts';
import { NIL_UUID } from '../../../src/domain/uuid.ts';
import type { Principal } from '../../../src/domain/values.ts';
import { blockOf } from '../../../src/services/audit-chain.ts';
import type { AuditRow } from '../../../src/store/contract/audit.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { retentionStore } from '../../../src/store/postgres/retention.ts';
import { commandCommit, journalEntry, newId } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;
const START = { sequence: 0, position: 0, hash: GENESIS_HASH };

const row = (tenantId: string | null, at: number): AuditRow => ({
  ...{ id: newId(), tenantId, at, by: newId(), key: null, via: 'rest', action: 'createHome', subject: 'home:x' },
  ...{ outcome: 'done', requestId: newId(), address: '192.0.2.1', client: 'curl', count: 1 },
});

eachStore('the audit chain', (backend, { sql }) => {
  const store = () => backend().store;
  const chain = () => store().auditChain;
  const append = (...rows: AuditRow[]) => store().audit.append(rows);
  const all = async (tenantId: string | null) => chain().entries(tenantId, 0, Number.MAX_SAFE_INTEGER, 100);
  /** Other tests have transactions on the same server. */
  async function horizon(): Promise<number> {
    const { position, transaction } = await chain().mark();
    await eventually(() => chain().isSettled(transaction));
    return position;
  }
  async function sealAll(tenantId: string) {
    const { last, removed } = await chain().state(tenantId);
    const before = last ?? removed;
    const entries = await chain().entries(tenantId, before.position, await horizon(), 100);
    const block = blockOf(tenantId, before, entries);
    expect(await chain().seal(tenantId, block)).toBe(true);
    return block;
  }

  it("has audit rows and users' transitions in the order in which they were written, whatever their times", async () => {
    const tenantId = newId();
    const by: Principal = { kind: 'user', id: newId(), via: 'rest', requestId: newId(), operation: 'commandDevice' };
    const device: Principal = { kind: 'device', id: newId() };
    const [late, early] = [row(tenantId, 900), row(tenantId, 100)];
    await append(late);
    const journal = [
      journalEntry(1, { at: 500, by, event: 'request', data: { action: 'turn_on' } }),
      journalEntry(2, { at: 600, by: device, event: 'ack.received' }),
    ];
    const command = commandCommit({ tenantId, version: 2, journal });
    await store().actors.commit([command]);
    await append(early, row(newId(), 50), row(null, 60));
    const entries = await all(tenantId);
    const [first, second, third] = entries.map(({ content }) => content as unknown[]);
    expect(entries.map(({ at }) => at)).toEqual([900, 500, 100]);
    expect(first).toEqual([
      ...['audit', late.id, 900, late.by, null, 'rest', 'createHome', 'home:x', 'done', late.requestId],
      ...['192.0.2.1', 'curl', 1],
    ]);
    expect(second?.slice(0, 7)).toEqual(['journal', 'command', command.ref.id, 1, 500, by, 'request']);
    expect(second?.[9]).toEqual({ action: 'turn_on' });
    expect(third?.[1]).toBe(early.id);
    const positions = entries.map(({ position }) => position);
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
    expect(await horizon()).toBeGreaterThanOrEqual(positions.at(-1) as number);
    expect(await chain().entries(tenantId, positions[0] as number, positions[1] as number, 10)).toHaveLength(1);
    expect((await all(null)).length).toBeGreaterThan(0);
  });

  it('takes a block only at its end, once', async () => {
    const tenantId = newId();
    await append(row(tenantId, 100));
    expect(await chain().state(tenantId)).toMatchObject({ head: null, last: null, removed: START });
    const entries = await all(tenantId);
    const block = blockOf(tenantId, START, entries);
    expect(await Promise.all([chain().seal(tenantId, block), chain().seal(tenantId, block)].map(settle))).toContain(
      true,
    );
    const { sequence, position, hash } = block;
    expect(await chain().state(tenantId)).toMatchObject({ head: { sequence, position, hash }, last: block });
    expect(await chain().seal(tenantId, { ...block, sequence: 2, previous: 'other' })).toBe(false);
    expect(await chain().seal(tenantId, { ...block, sequence: 3, previous: hash })).toBe(false);
    expect(await chain().seal(tenantId, block)).toBe(false);
    expect(await chain().blocks(tenantId, 0, 10)).toEqual([block]);
    expect(await chain().blocks(tenantId, 1, 10)).toEqual([]);
  });

  it('finds the tenants with entries that are not sealed, in pages', async () => {
    const unsealed = async () => {
      const found: string[] = [];
      for (let after: string | null = NIL_UUID; after !== null; ) {
        const page: { tenants: string[]; next: string | null } = await chain().unsealedTenants(after, 2);
        found.push(...page.tenants);
        after = page.next;
      }
      return found;
    };
    await append(row(newId(), 100));
    // Only tenants that exist are examined.
    expect(await unsealed()).toEqual([]);
  });

  it('keeps the newest block that retention has deleted, and the time before which entries may be gone', async () => {
    const tenantId = newId();
    const now = 400 * DAY;
    const blocks = [];
    for (const at of [now - 9 * DAY, now - 8 * DAY, now - DAY]) {
      await append(row(tenantId, at));
      blocks.push(await sealAll(tenantId));
    }
    await store().retention.prune(now, { commands: 5, journal: 5 }, 1);
    const [, second, third] = blocks;
    expect(await chain().blocks(tenantId, 0, 10)).toEqual([third]);
    const { removed, removedBlock, expiredBefore, head } = await chain().state(tenantId);
    expect(removed).toEqual({ sequence: 2, position: second?.position, hash: second?.hash });
    expect(removedBlock).toEqual(second);
    expect(expiredBefore).toBe(now - 5 * DAY);
    expect(head?.sequence).toBe(3);
    await store().retention.prune(now, { commands: 5, journal: 30 }, 10);
    expect((await chain().state(tenantId)).expiredBefore).toBe(now - 5 * DAY);
  });

  it('keeps a block as long as an earlier one, in batches of any size', async () => {
    const now = 400 * DAY;
    const tenants = [newId(), newId(), newId()];
    for (const tenantId of tenants) {
      for (const age of tenantId === tenants[1] ? [1, 9, 9] : [9, 9, 9, 1, 9]) {
        await append(row(tenantId, now - age * DAY));
        await sealAll(tenantId);
      }
    }
    await store().retention.prune(now, { commands: 5, journal: 5 }, 2);
    const left = await Promise.all(tenants.map((tenantId) => chain().blocks(tenantId, 0, 10)));
    expect(left.map((blocks) => blocks.map(({ sequence }) => sequence))).toEqual([
      [4, 5],
      [1, 2, 3],
      [4, 5],
    ]);
  });

  it.runIf(sql)('reads a few rows for each block that retention deletes', async () => {
    const { database } = backend();
    const [tenantId, other, blocks] = [newId(), newId(), 2_000];
    await database.write({
      text: `insert into audit_blocks (tenant_id, sequence, position, entries, first_at, last_at, digest, previous, hash)
        select t::uuid, n, n, 1, n, case when n > $3::integer then $4::bigint else n end, 'd', 'p', 'h'
        from generate_series(1, 2 * $3::integer) n, (values ($1), ($2)) as v(t)`,
      values: [tenantId, other, blocks, 500 * DAY],
    });
    for (const id of [tenantId, other]) {
      await database.write({
        text: `insert into audit_heads (tenant_id, sequence, position, hash) values ($1, $2, $2, 'h')`,
        values: [id, blocks],
      });
    }
    let visited = 0;
    const explained = {
      embedded: false,
      async write(statement: Statement) {
        if (statement.name !== 'prune_audit_blocks') return [];
        const text = `explain (analyze, format json) ${statement.text}`;
        const [answer] = await database.write<{ 'QUERY PLAN': { Plan: PlanNode }[] }>({ ...statement, name: '', text });
        visited += rowsOf((answer as NonNullable<typeof answer>)['QUERY PLAN'][0]?.Plan);
        const firsts = await Promise.all([tenantId, other].map((id) => chain().blocks(id, 0, 1)));
        return Array.from({ length: firsts.some(([first]) => (first?.sequence ?? 0) <= blocks) ? 500 : 0 });
      },
    };
    const now = 400 * DAY;
    await retentionStore(explained as unknown as Database).prune(now, { commands: 5, journal: 5 }, 500);
    for (const id of [tenantId, other])
      expect((await chain().blocks(id, 0, 1)).map(({ sequence }) => sequence)).toEqual([blocks + 1]);
    expect(visited).toBeGreaterThan(blocks);
    expect(visited).toBeLessThan(60 * blocks);
  });
});

interface PlanNode {
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: PlanNode[];
}

/** Rows that a plan and its parts have read or made. */
function rowsOf(plan: PlanNode | undefined): number {
  if (plan === undefined) return 0;
  const removed = (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Join Filter'] ?? 0);
  const own = (plan['Actual Rows'] + removed) * plan['Actual Loops'];
  return (plan.Plans ?? []).reduce((sum, part) => sum + rowsOf(part), own);
}

/** One of two statements that add the first block fails or is refused. */
const settle = (added: Promise<boolean>): Promise<boolean> => added.catch(() => false);
