import { beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { ActorKind, RowOutput } from '../../../src/machines/outputs.ts';
import { type ActorCommit, DataRefused } from '../../../src/store/contract.ts';
import { Committer } from '../../../src/store/postgres/commit.ts';
import { sectionParameters } from '../../../src/store/postgres/commit-input.ts';
import { allSections, BatchStatement, batchStatements } from '../../../src/store/postgres/commit-statement.ts';
import type { Database, Query } from '../../../src/store/postgres/database.ts';
import type { Fence } from '../../../src/store/postgres/fence.ts';
import {
  commandCommit,
  deviceCommit,
  idempotencyRow,
  journalEntry,
  newId,
  nextCommit,
  planCommit,
  tenantCommit,
} from '../../support/actor-commits.ts';
import type { CommittedBatch } from '../../support/committed-batch.ts';
import { expectReached, fc, runs, seed } from '../../support/properties.ts';
import { oneDatabase } from '../../support/store.ts';

const universal = new BatchStatement('any', allSections);

/** Skips existing rows in the first attempt, instead of failing first. */
class SkippingStatement extends BatchStatement {
  override text(fence: Fence | null): string {
    return super.text(fence, 'skip');
  }
}

describe('commit statements', () => {
  it('go from narrow to wide, and the last has every section', () => {
    expect([...(batchStatements.at(-1)?.sections ?? [])].sort()).toEqual([...allSections].sort());
    for (const [n, statement] of batchStatements.entries()) {
      const earlier = batchStatements
        .slice(0, n)
        .filter((one) => [...statement.sections].every((s) => one.sections.has(s)));
      expect(earlier.map(({ name }) => name)).toEqual([]);
    }
  });

  it('have distinct names', () => {
    expect(new Set(batchStatements.map(({ name }) => name)).size).toBe(batchStatements.length);
  });
});

const USERS = 4;
const PROPOSALS = 4;

/** The change of one actor in a batch; the actor is chosen when the history is built. */
interface Step {
  kind: ActorKind;
  form: 'new' | 'full' | 'live_only';
  pick: number;
  stale: boolean;
  journal: boolean;
  outbox: boolean;
  set: boolean;
  clear: boolean;
  delivered: boolean;
  idempotency: boolean;
  rows: 'none' | 'key' | 'end' | 'manifest' | 'member' | 'proposal' | 'change';
}
interface DrawnBatch {
  steps: Step[];
  deliveries: boolean;
  atomic: boolean;
}

const rarely = fc.integer({ min: 0, max: 15 }).map((n) => n === 0);
const often = fc.boolean();
const aStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom<ActorKind>('device', 'command', 'plan', 'tenant'),
  form: fc.constantFrom('new', 'full', 'live_only'),
  pick: fc.nat(100),
  stale: rarely,
  journal: often,
  outbox: often,
  set: often,
  clear: often,
  delivered: often,
  idempotency: often,
  rows: fc.constantFrom('none', 'none', 'key', 'end', 'manifest', 'member', 'proposal', 'change'),
});
const aBatch: fc.Arbitrary<DrawnBatch> = fc.record({
  steps: fc.array(aStep, { maxLength: 5 }),
  deliveries: often,
  atomic: often,
});

const makers = { device: deviceCommit, command: commandCommit, plan: planCommit, tenant: tenantCommit };

/** Batches as a runtime would commit them one after another; it assumes that a stale one was committed. */
function history(batches: readonly DrawnBatch[], users: readonly Uuid[], proposals: readonly Uuid[]): CommittedBatch[] {
  const actors: ActorCommit[] = [];
  const sent: { from: ActorCommit['ref']; version: number; n: number }[] = [];
  let keys = 0;
  return batches.map(({ steps, deliveries, atomic }) => {
    const inBatch = new Set<string>();
    const commits: ActorCommit[] = [];
    for (const step of steps) {
      const known = actors.filter(({ ref }) => ref.kind === step.kind && !inBatch.has(ref.id));
      const before = step.form === 'new' ? undefined : known[step.pick % Math.max(1, known.length)];
      const base = before ?? makers[step.kind]({ fixed: { name: 'made' }, live: { state: {} } });
      const { ref, tenantId } = base;
      const version = before ? before.version + (step.stale ? 7 : 1) : 1;
      const fixed = step.form === 'full' ? { name: `named ${version}` } : base.fixed;
      const rows: RowOutput[] = [];
      if (step.rows === 'key') {
        keys += 1;
        const key = {
          keyVersion: keys,
          signingAlg: 'hmac-sha256',
          sealedSecret: 's',
          publicKey: null,
          createdAt: 1,
        } as const;
        rows.push({ type: 'key.put', deviceId: ref.id, key });
      } else if (step.rows === 'end') {
        rows.push({ type: 'keys.end', deviceId: ref.id, status: 'revoked', at: version });
      } else if (step.rows === 'manifest') {
        const manifest = { deviceId: ref.id, tenantId, category: null, version, own: false, capabilities: [] };
        rows.push({ type: 'manifest.put', manifest });
      } else if (step.rows === 'member') {
        rows.push({ type: 'member.bind', userId: users[step.pick % USERS] as Uuid, tenantId, role: 'owner' });
      } else if (step.rows === 'proposal') {
        const proposalId = proposals[step.pick % PROPOSALS] as Uuid;
        rows.push({ type: 'proposal.accept', proposalId, planId: newId() });
      } else if (step.rows === 'change') {
        // The change requests have the ids of the proposals; they expire at 8.
        const changeId = proposals[step.pick % PROPOSALS] as Uuid;
        rows.push({ type: 'change.apply', changeId, by: { kind: 'user', id: 'u' }, at: version });
      }
      const given: Partial<ActorCommit> = {
        fixed,
        live: { state: { n: version } },
        fixedUnchanged: step.form === 'live_only',
        journal: step.journal ? [journalEntry(version)] : [],
        outbox: step.outbox ? [{ n: 0, output: { type: 'actor.tell', to: ref, event: { type: 'x' } as never } }] : [],
        timers: {
          set: step.set ? [{ ref, id: `timer ${step.pick % 2}`, event: 'over', dueAt: version }] : [],
          clear: step.clear ? ['timer 0', 'timer 1'] : [],
        },
        rows,
        idempotency: step.idempotency ? idempotencyRow() : null,
        delivered: step.delivered ? sent.splice(0, 1) : [],
      };
      const readVersion = version - 1;
      const commit = before
        ? nextCommit(before, { ...given, readVersion, version })
        : { ...base, ...given, fixedUnchanged: false };
      if (step.outbox) sent.push({ from: ref, version, n: 0 });
      commits.push(commit);
      inBatch.add(ref.id);
      if (!before) actors.push(commit);
      else actors[actors.indexOf(before)] = commit;
    }
    return { actors: commits, delivered: deliveries ? sent.splice(0, 1) : [], atomic };
  });
}

const tables = [
  ...['devices', 'commands', 'plans', 'tenants', 'journal', 'outbox', 'timers', 'device_keys', 'manifests'],
  ...['idempotency', 'users', 'proposals', 'change_requests'],
];

/** All rows of all tables. Sequences are left out: a rollback does not reset them. */
async function contents(query: Query): Promise<Record<string, unknown[]>> {
  const all: Record<string, unknown[]> = {};
  for (const table of tables) {
    const rows = await query<{ row: JsonObject }>(
      `select to_jsonb(t) - 'seq' - 'position' as row from ${table} t order by 1`,
    );
    all[table] = rows.map(({ row }) => row);
  }
  return all;
}

class Undo extends Error {}

/** The change requests that a commit applies, with its tenant. */
const changesOf = ({ rows, tenantId }: ActorCommit) =>
  rows.flatMap((row) => (row.type === 'change.apply' ? [[row.changeId, tenantId] as const] : []));

/**
 * The rows that a history leaves in the database, and the response to each batch, with the statements that `choose`
 * selects. Everything is rolled back.
 */
async function outcome(
  database: Database,
  batches: readonly CommittedBatch[],
  users: readonly Uuid[],
  proposals: readonly Uuid[],
  choose: (batch: CommittedBatch) => readonly BatchStatement[],
) {
  const answers: unknown[] = [];
  const tenants = new Map(batches.flatMap(({ actors }) => actors.flatMap(changesOf)).reverse());
  let rows: Record<string, unknown[]> = {};
  const run = async (query: Query): Promise<never> => {
    for (const id of users) {
      await query(
        `insert into users (id, iss, sub, email_verified, role, created_at) values ($1::uuid, 'iss', $1::uuid::text, false, 'none', 1)`,
        [id],
      );
    }
    for (const id of proposals) {
      await query(
        `insert into proposals (id, tenant_id, device_id, data, asked_by, status, steps, phase, created_at)
         values ($1::uuid, $1::uuid, $1::uuid, '{}', '{}', 'pending', '[]', 'x', 1)`,
        [id],
      );
      await query(
        `insert into change_requests (id, tenant_id, operation, subject, input, base, preview, digest, token_hash,
           requested_by, created_at, expires_at, status)
         values ($1::uuid, $2::uuid, 'o', 's', '{}', 'b', '{}', 'd', 't', '{}', 1, 8, 'awaiting_confirmation')`,
        [id, tenants.get(id) ?? id],
      );
    }
    const inTransaction = {
      discardPlans() {},
      async write({ text, values }: { text: string; values?: never }) {
        await query('savepoint statement');
        return query(text, values).catch(async (error) => {
          await query('rollback to savepoint statement');
          throw error;
        });
      },
    } as unknown as Database;
    for (const batch of batches) {
      await query('savepoint before');
      try {
        answers.push(await new Committer(inTransaction, null, choose(batch)).commit(batch.actors, batch));
      } catch (error) {
        if (!(error instanceof DataRefused)) throw error;
        answers.push(error.message);
      }
      const conflicted = batch.atomic === true && (answers.at(-1) as { lost?: unknown[] }).lost?.length;
      if (conflicted || typeof answers.at(-1) === 'string') await query('rollback to savepoint before');
    }
    rows = await contents(query);
    throw new Undo();
  };
  await database.transaction(run).catch((error) => {
    if (!(error instanceof Undo)) throw error;
  });
  return { answers, rows };
}

/** Split into several tests, so that each finishes well within the time limit. */
const PARTS = Array.from({ length: 5 }, (_, n) => n + 1);

oneDatabase('commits', (backend) => {
  const used = new Set<string>();

  async function tryBatches(tries: { numRuns: number; seed: number }): Promise<void> {
    const { database } = backend();
    await fc.assert(
      fc.asyncProperty(fc.array(aBatch, { minLength: 1, maxLength: 8 }), async (drawn) => {
        const users = Array.from({ length: USERS }, newId);
        const proposals = Array.from({ length: PROPOSALS }, newId);
        const batches = history(drawn, users, proposals);
        const exact = await outcome(database, batches, users, proposals, (batch) => {
          const sections = [...sectionParameters(batch.actors, batch.delivered).keys()];
          used.add(batchStatements.find((one) => one.covers(sections))?.name ?? '');
          return [new SkippingStatement('exact', sections)];
        });
        expect(await outcome(database, batches, users, proposals, () => batchStatements)).toEqual(exact);
        expect(await outcome(database, batches, users, proposals, () => [universal])).toEqual(exact);
      }),
      tries,
    );
  }

  // A new database compiles for seconds at its first statements, which must not count towards the limit of the first
  // part.
  beforeAll(() => tryBatches({ numRuns: 1, seed }));

  it.each(PARTS)('leave the same rows and return the same for every statement (part %i)', (part) =>
    tryBatches({ ...runs(3), seed: seed + part }),
  );

  it('were both small and large', () => {
    const wanted = ['commit_any', 'commit_deliveries', 'commit_plans'];
    expectReached(() => expect([...used]).toEqual(expect.arrayContaining(wanted)));
  });

  it.each(batchStatements.map((statement) => [statement.name, statement] as const))(
    'without rows change nothing with %s',
    async (_name, statement) => {
      const { database } = backend();
      const [row] = await database.write<{ stored: number; names: null }>({
        text: statement.text(null, 'fail'),
        values: statement.values(new Map(), { expected: 0, atomic: true, shards: null }),
      });
      expect(row).toMatchObject({ stored: 0, names: null });
    },
  );
});
