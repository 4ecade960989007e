import type { ClientBase } from 'pg';
import { describe, expect, it } from 'vitest';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { ActorFilter } from '../../../src/store/contract/inspection.ts';
import type { ActorCommit, CommitOptions } from '../../../src/store/contract.ts';
import { sectionParameters } from '../../../src/store/postgres/commit-input.ts';
import { batchStatements } from '../../../src/store/postgres/commit-statement.ts';
import { MOST_NAMES, PreparedStatements } from '../../../src/store/postgres/prepared-statements.ts';
import {
  commandCommit,
  deviceCommit,
  idempotencyRow,
  journalEntry,
  newId,
  nextCommit,
  planCommit,
} from '../../support/actor-commits.ts';
import { eachDatabase } from '../../support/store.ts';

describe('prepared statements', () => {
  const client = (queries: string[] = []) =>
    ({ query: async (text: string) => void queries.push(text) }) as unknown as ClientBase;
  const statement = (name: string) => ({ name, text: `select '${name}'` });

  it('beyond the limit, or with a name that is too long, are sent without a name', () => {
    const statements = new PreparedStatements(2);
    const one = client();
    statements.connected(one);
    for (const name of ['a', 'b', 'a']) expect(statements.admit(one, statement(name))).toEqual(statement(name));
    expect(statements.admit(one, statement('c'))).toEqual({ text: `select 'c'` });
    expect(statements.admit(one, statement('b'.repeat(64)))).not.toHaveProperty('name');
    expect(statements.admit(one, { text: 'select 1' })).toEqual({ text: 'select 1' });
    expect(statements.count).toBe(2);
  });

  it('are counted on all connections, except on closed ones', () => {
    const statements = new PreparedStatements();
    const [one, other] = [client(), client()];
    for (const each of [one, other]) {
      statements.connected(each);
      statements.admit(each, statement('a'));
    }
    statements.admit(one, statement('b'));
    expect(statements.count).toBe(3);
    statements.removed(one);
    expect(statements.count).toBe(1);
  });

  it('are planned again once on each existing connection when their plans are discarded', async () => {
    const statements = new PreparedStatements();
    const queries: string[] = [];
    const [before, after] = [client(queries), client(queries)];
    statements.connected(before);
    statements.discardPlans();
    statements.connected(after);
    for (const each of [before, after, before]) await statements.refresh(each);
    expect(queries).toEqual(['discard plans']);
  });
});

/** Every subset of the list. */
const subsets = <T>(list: readonly T[]): T[][] =>
  Array.from({ length: 2 ** list.length }, (_, bits) => list.filter((_one, n) => (bits >> n) % 2 === 1));

eachDatabase('prepared statements', (backend) => {
  /** Reads from a free connection; consecutive calls all use the same one. */
  const onServer = async (like = '%') => {
    const text = 'select name from pg_prepared_statements where name like $1';
    return (await backend().database.read<{ name: string }>({ text, values: [like] })).map(({ name }) => name);
  };

  it('of commits are as many as there are statements, for any content of the commits', async () => {
    const { store } = backend();
    const forms = [
      () => deviceCommit(),
      () => commandCommit({ journal: [journalEntry(1)] }),
      () => planCommit({ outbox: [{ n: 0, output: { type: 'plan.unheard', planId: newId() } as never }] }),
      () => deviceCommit({ idempotency: idempotencyRow() }),
      () => commandCommit({ timers: { clear: ['x'] } }),
      () => planCommit({ timers: { set: [{ ref: { kind: 'plan', id: newId() }, id: 'x', event: 'y', dueAt: 1 }] } }),
    ];
    const needed = new Set<string>();
    const commit = async (commits: readonly ActorCommit[], options: CommitOptions) => {
      needed.add([...sectionParameters(commits, options.delivered ?? []).keys()].sort().join(' '));
      expect(await store.actors.commit(commits, options)).toEqual({ lost: [] });
    };
    for (const chosen of subsets(forms)) {
      const made = chosen.map((form) => form());
      const delivered =
        chosen.length % 2 === 0 ? [{ from: { kind: 'device' as const, id: newId() }, version: 1, n: 0 }] : [];
      await commit(made, { delivered });
      const changed = made.map((one, n) => nextCommit(one, { fixedUnchanged: n % 2 === 0 }));
      await commit(changed, { atomic: chosen.length % 3 === 0 });
    }
    expect(needed.size).toBeGreaterThan(60);
    const prepared = await onServer('commit\\_%');
    expect(prepared.length).toBeGreaterThan(2);
    expect(prepared.length).toBeLessThanOrEqual(batchStatements.length);
  });

  it('of lists are limited, for any repetition of filters', async () => {
    const { store, database } = backend();
    const tenantId = newId();
    const given = { homeId: newId(), roomId: newId(), deviceType: 'smart_light' };
    const list = async () => {
      for (const names of subsets(Object.keys(given) as (keyof typeof given)[])) {
        for (const online of [undefined, true, false]) {
          for (const revoked of [undefined, true, false]) {
            const filter = Object.fromEntries(names.map((name) => [name, given[name]]));
            await store.devices.list(
              tenantId,
              { ...filter, ...(online !== undefined && { online }), ...(revoked !== undefined && { revoked }) },
              10,
            );
          }
        }
      }
    };
    const states = [[['link', 'online']], [['administration', 'revoked']], [['lifecycle', 'awaiting_confirmation']]];
    const inspect = async (repeated: number) => {
      for (const kind of ['device', 'command', 'plan', 'tenant'] satisfies ActorKind[]) {
        for (const quarantined of [undefined, true, false]) {
          for (const some of subsets(states)) {
            const groups = Array.from({ length: repeated }, () => some).flat();
            const filter: ActorFilter = {
              ...(groups.length > 0 && { states: groups }),
              ...(quarantined !== undefined && { quarantined }),
            };
            await store.inspection.actors(tenantId, kind, filter, 10);
          }
        }
      }
    };
    await list();
    await inspect(1);
    const once = (await onServer()).length;
    await inspect(2);
    await inspect(3);
    expect((await onServer()).length).toBe(once);
    expect(once).toBeLessThanOrEqual(MOST_NAMES);
    expect(database.preparedStatements).toBeGreaterThanOrEqual(once);
  });
});

eachDatabase('the plan of a prepared statement', (backend) => {
  it('is made again when the tables have outgrown it', async () => {
    const { store, database } = backend();
    const byKey = /Index Scan using devices_pkey on devices a .*\n\s+Index Cond: \(id = i\.id\)/;
    const plan = async () => {
      const text = `explain execute commit_report('[]', '{}', '{}', 0, false)`;
      return (await database.read<{ 'QUERY PLAN': string }>({ text })).map((row) => row['QUERY PLAN']).join('\n');
    };
    const device = deviceCommit();
    await store.actors.commit([device]);
    await store.actors.commit([nextCommit(device, { fixedUnchanged: true })]);
    expect(await plan()).not.toMatch(byKey);
    for (let made = 0; made < 2_000; made += 1_000) {
      await store.actors.commit(Array.from({ length: 1_000 }, () => deviceCommit()));
    }
    expect(await plan()).toMatch(byKey);
  });
});
