import { expect, it } from 'vitest';
import { type CommandStatus, commandStatuses } from '../../../src/domain/command.ts';
import type { RowOutput } from '../../../src/machines/outputs.ts';
import { MAX_COMMAND_AGE_MS } from '../../../src/store/contract/commands.ts';
import type { ActorCommit, Position } from '../../../src/store/contract.ts';
import { commandStore } from '../../../src/store/postgres/commands.ts';
import type { Database, Statement } from '../../../src/store/postgres/database.ts';
import { commandCommit, deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachDatabase, eachStore } from '../../support/store.ts';

/** With a deadline, like every open or watched command. */
function timed(commit: ActorCommit): ActorCommit {
  commit.timers.set.push({ ref: commit.ref, id: 'over', event: 'over', dueAt: Number.MAX_SAFE_INTEGER });
  return commit;
}

eachStore('commands', (backend) => {
  const commands = () => backend().store.commands;
  const commitAll = (...actors: ReturnType<typeof commandCommit>[]) => backend().store.actors.commit(actors);

  it('of a device are listed as its history, newest first in pages', async () => {
    const tenantId = newId();
    const deviceId = newId();
    const commits = Array.from({ length: 7 }, (_, n) =>
      commandCommit({ tenantId, fixed: { n }, columns: { device_id: deviceId, created_at: n >> 1 } }),
    );
    await commitAll(...commits, commandCommit({ tenantId }));
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const page = await commands().list(tenantId, deviceId, 3, after);
      seen.push(...page.items.map((actor) => actor.ref.id));
      after = page.next ?? undefined;
      await commitAll(commandCommit({ tenantId, columns: { device_id: deviceId, created_at: 99 } }));
    } while (after);
    const newestFirst = [...commits].sort(
      (a, b) => (b.columns.created_at as number) - (a.columns.created_at as number) || (a.ref.id < b.ref.id ? 1 : -1),
    );
    expect(seen).toEqual(newestFirst.map((commit) => commit.ref.id));
    expect(await commands().list(newId(), deviceId, 3)).toMatchObject({ items: [], next: null });
    const [newest] = (await commands().list(tenantId, deviceId, 1)).items;
    expect(newest).toMatchObject({ ref: { kind: 'command' }, tenantId, version: 1 });
  });

  it('that are pending are dispatched and not final, oldest first, critical ones until they were written', async () => {
    const deviceId = newId();
    const of = (status: CommandStatus, created_at: number, more: object = {}) =>
      timed(commandCommit({ columns: { device_id: deviceId, status, created_at, ...more } }));
    const queued = of('dispatched', 3);
    const older = of('acknowledged', 2, { written: true });
    const oldest = of('in_progress', 1, { written: true });
    const critical = of('dispatched', 4, { critical: true });
    const others = commandStatuses
      .filter((status) => !['dispatched', 'acknowledged', 'in_progress'].includes(status))
      .map((status) => of(status, 5));
    await commitAll(queued, older, oldest, critical, ...others, of('dispatched', 0, { critical: true, written: true }));
    expect(await commands().deliverable(deviceId)).toEqual([oldest, older, queued, critical].map((one) => one.ref.id));
    expect(await commands().deliverable(newId())).toEqual([]);
  });

  it('that are open are those that can be cancelled or acknowledged in time', async () => {
    const deviceId = newId();
    const commits = commandStatuses.map((status) => timed(commandCommit({ columns: { device_id: deviceId, status } })));
    await commitAll(...commits, timed(commandCommit()), timed(deviceCommit({ id: deviceId })));
    const open = new Set(await commands().open(deviceId));
    const statuses = commits.filter((one) => open.has(one.ref.id)).map((one) => one.columns.status);
    expect(statuses).toEqual(['submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress']);
    const [submitted] = commits;
    if (submitted) await commitAll(nextCommit(submitted, { columns: { ...submitted.columns, status: 'cancelled' } }));
    expect(await commands().open(deviceId)).toHaveLength(4);
    // With a new deadline in place of the old one, or with both, the command is returned once.
    for (const one of commits.slice(2, 4)) {
      const set = ['over', 'another'].map((id) => ({ ref: one.ref, id, event: 'over', dueAt: 1 }));
      await commitAll(nextCommit(one, { timers: { set, clear: [] } }));
    }
    expect(await commands().open(deviceId)).toHaveLength(4);
  });

  it('that are open and older than the revocation are found if the device is active again, else all', async () => {
    const device = deviceCommit();
    const deviceId = device.ref.id;
    const of = (created_at: number) => timed(commandCommit({ columns: { device_id: deviceId, created_at } }));
    const [older, same, newer] = [of(1), of(2), of(3)];
    const idsOf = (...made: ActorCommit[]) => made.map(({ ref }) => ref.id);
    await commitAll(device, older, same, newer);
    expect(await commands().open(deviceId)).toEqual(idsOf(older, same, newer));
    expect(await commands().open(deviceId, 2)).toEqual(idsOf(older, same));
    expect(await commands().open(deviceId, 0)).toEqual([]);
    await commitAll(nextCommit(device, { columns: { ...device.columns, revoked: true } }));
    expect(await commands().open(deviceId, 0)).toEqual(idsOf(older, same, newer));
    // A device without a row is not active.
    const without = newId();
    const orphan = timed(commandCommit({ columns: { device_id: without, created_at: 3 } }));
    await commitAll(orphan);
    expect(await commands().open(without, 0)).toEqual(idsOf(orphan));
  });

  it('of revoked and deleted devices are found as long as they are open', async () => {
    const active = deviceCommit();
    const revoked = deviceCommit({ columns: { revoked: true } });
    const deleted = deviceCommit({ columns: { revoked: true, deleted: true } });
    const of = (device: ActorCommit, status: CommandStatus = 'dispatched') =>
      timed(commandCommit({ columns: { device_id: device.ref.id, status } }));
    const open = [of(revoked), of(revoked, 'awaiting_confirmation'), of(deleted, 'in_progress')];
    const others = [of(active), of(revoked, 'cancelled'), of(revoked, 'timed_out')];
    await commitAll(active, revoked, deleted, ...open, ...others);
    const devices = new Set([active, revoked, deleted].map(({ ref }) => ref.id));
    const found = async () => (await commands().openOnRevokedDevices()).filter(({ deviceId }) => devices.has(deviceId));
    const expected = open
      .map(({ ref, columns }) => ({ deviceId: columns.device_id, commandId: ref.id }))
      .sort((a, b) => (a.commandId < b.commandId ? -1 : 1));
    expect(await found()).toEqual(expected);
    await commitAll(...open.map((one) => nextCommit(one, { columns: { ...one.columns, status: 'cancelled' } })));
    expect(await found()).toEqual([]);
    await commitAll(nextCommit(active, { columns: { ...active.columns, revoked: true } }));
    expect(await found()).toMatchObject([{ deviceId: active.ref.id }]);
  });

  it('that are older than a reinstatement of their device are open, but not pending', async () => {
    const deviceId = newId();
    const put = (keyVersion: number, createdAt: number): RowOutput => ({
      type: 'key.put',
      deviceId,
      key: { keyVersion, signingAlg: 'hmac-sha256', sealedSecret: 'sealed', publicKey: null, createdAt },
    });
    const end = (status: 'retired' | 'revoked', at: number, except: number[] = []): RowOutput => ({
      type: 'keys.end',
      deviceId,
      ...{ status, at, except },
    });
    const of = (created_at: number) => timed(commandCommit({ columns: { device_id: deviceId, created_at } }));
    const [older, same, newer] = [of(29), of(30), of(31)];
    const idsOf = (...made: ActorCommit[]) => made.map(({ ref }) => ref.id);
    const late = async () => {
      const found = (await commands().openOnRevokedDevices()).filter((one) => one.deviceId === deviceId);
      return found.map(({ commandId }) => commandId);
    };
    // A rotation retires the first key, but does not make any command late.
    const rotated = deviceCommit({ id: deviceId, rows: [put(1, 10), put(2, 40), end('retired', 40, [2])] });
    await commitAll(rotated, older, same, newer);
    expect([await late(), await commands().deliverable(deviceId)]).toEqual([[], idsOf(older, same, newer)]);
    const revoked = nextCommit(rotated, { rows: [end('revoked', 50)] });
    await commitAll(revoked);
    await commitAll(nextCommit(revoked, { rows: [put(3, 30)] }));
    expect([await late(), await commands().deliverable(deviceId)]).toEqual([idsOf(older), idsOf(same, newer)]);
  });

  it('that timed out are not open, although they have a deadline for a late acknowledgement', async () => {
    const deviceId = newId();
    const commit = timed(commandCommit({ columns: { device_id: deviceId } }));
    await commitAll(commit);
    expect(await commands().open(deviceId)).toEqual([commit.ref.id]);
    const set = [{ ref: commit.ref, id: 'late', event: 'over', dueAt: 2 }];
    const columns = { ...commit.columns, status: 'timed_out' };
    const over = nextCommit(commit, { fixedUnchanged: true, columns, timers: { set, clear: ['over'] } });
    await commitAll(over);
    expect(await commands().open(deviceId)).toEqual([]);
    expect(await commands().deliverable(deviceId)).toEqual([]);
  });

  it('are found by the hash of a token only for this device (or any) and tenant, while it is valid', async () => {
    const tenantId = newId();
    const deviceId = newId();
    const hash = newId();
    const commit = commandCommit({ tenantId, columns: { device_id: deviceId, token_hash: hash } });
    await commitAll(commit);
    for (const named of [deviceId, null]) {
      expect(await commands().byToken(tenantId, named, hash)).toEqual({ id: commit.ref.id, deviceId });
      expect(await commands().byToken(newId(), named, hash)).toBeNull();
    }
    expect(await commands().byToken(tenantId, newId(), hash)).toBeNull();
    await commitAll(nextCommit(commit, { columns: { ...commit.columns, token_hash: null } }));
    expect(await commands().byToken(tenantId, deviceId, hash)).toBeNull();
  });

  it('that wait for a confirmation are in the inbox of their tenant, newest first in pages, until their deadline', async () => {
    const tenantId = newId();
    const of = (created_at: number, expiresAt: number, columns: object = {}, asked = false) =>
      commandCommit({
        tenantId,
        fixed: { confirmation: { expiresAt, asked } },
        columns: { status: 'awaiting_confirmation', token_hash: newId(), created_at, ...columns },
      });
    const waiting = [of(1, 1_001), of(2, 2_000), of(2, 2_000), of(3, 1_700_000_000_000), of(4, 1_001)];
    const over = [of(5, 1_000), of(6, 2_000, { status: 'dispatched' })];
    const confirmed = of(7, 2_000);
    const foreign = commandCommit({ columns: { status: 'awaiting_confirmation', token_hash: newId() } });
    const dryRun = of(8, 2_000, {}, true);
    await commitAll(...waiting, ...over, confirmed, foreign, dryRun);
    await commitAll(
      nextCommit(confirmed, { columns: { ...confirmed.columns, status: 'dispatched', token_hash: null } }),
    );
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const page = await commands().awaitingConfirmation(tenantId, { now: 1_000, dryRuns: false }, 2, after);
      seen.push(...page.items.map((actor) => actor.ref.id));
      after = page.next ?? undefined;
    } while (after);
    const newestFirst = [...waiting].sort(
      (a, b) => (b.columns.created_at as number) - (a.columns.created_at as number) || (a.ref.id < b.ref.id ? 1 : -1),
    );
    expect(seen).toEqual(newestFirst.map((commit) => commit.ref.id));
    const [later, dryRuns] = [
      { now: 1_001, dryRuns: false },
      { now: 1_000, dryRuns: true },
    ];
    expect((await commands().awaitingConfirmation(tenantId, later, 9)).items).toHaveLength(3);
    const { items } = await commands().awaitingConfirmation(tenantId, dryRuns, 9);
    expect(items.map((actor) => actor.ref.id)).toEqual([dryRun.ref.id]);
    expect(await commands().awaitingConfirmation(newId(), later, 9)).toMatchObject({ items: [], next: null });
  });

  it('with a pending verification are watched again', async () => {
    const deviceId = newId();
    const of = (verification: string, context: object) =>
      timed(commandCommit({ live: { ...context }, columns: { device_id: deviceId, verification } }));
    const unseen = of('pending', { verification: { expected: { on: true }, observed: null } });
    const seen = of('pending', { verification: { expected: { level: 3 }, observed: { level: 2 } } });
    await commitAll(
      unseen,
      seen,
      of('idle', { verification: { expected: { on: true }, observed: null } }),
      of('verified', { verification: { expected: {} } }),
    );
    const [moved, done] = [unseen, seen].map(() =>
      of('idle', { verification: { expected: { on: true }, observed: {} } }),
    );
    if (moved === undefined || done === undefined) throw new Error('not there');
    await commitAll(moved, done);
    const settled = { fixedUnchanged: true };
    const pending = { ...moved.columns, verification: 'pending' };
    await commitAll(
      nextCommit(moved, {
        ...settled,
        columns: pending,
        live: { verification: { expected: { on: false }, observed: null } },
      }),
      nextCommit(done, { ...settled, columns: pending, live: { verification: { expected: null, observed: null } } }),
    );
    const watches = (await commands().awaitingVerification()).filter((watch) => watch.deviceId === deviceId);
    expect(watches).toEqual([
      { deviceId, commandId: unseen.ref.id, expected: { on: true }, seen: false },
      { deviceId, commandId: seen.ref.id, expected: { level: 3 }, seen: true },
      { deviceId, commandId: moved.ref.id, expected: { on: false }, seen: false },
    ]);
  });
});

eachDatabase('a list of commands by status', (backend) => {
  it('examines a limited number for each page, loses and repeats none, and is not counted', async () => {
    const tenantId = newId();
    const statuses: CommandStatus[] = ['failed', ...Array<CommandStatus>(7).fill('succeeded'), 'failed', 'succeeded'];
    const commits = statuses.map((status, n) => commandCommit({ tenantId, columns: { status, created_at: n } }));
    await backend().store.actors.commit(commits);
    const limited = commandStore(backend().database, { maxExamined: 3 });
    const pages: string[][] = [];
    let after: Position | undefined;
    do {
      const page = await limited.listAll(tenantId, { deviceIds: undefined, status: 'failed' }, 2, after);
      pages.push(page.items.map(({ ref }) => ref.id));
      expect(await page.count()).toBeNull();
      after = page.next ?? undefined;
    } while (after);
    expect(pages.length).toBeGreaterThan(2);
    expect(pages).toContainEqual([]);
    expect(pages.flat()).toEqual([commits[8]?.ref.id, commits[0]?.ref.id]);
  });
});

eachStore('a list of commands by status', (backend) => {
  it('is counted only if it has one page', async () => {
    const tenantId = newId();
    const commits = [1, 2, 3].map((created_at) =>
      commandCommit({ tenantId, columns: { status: 'failed', created_at } }),
    );
    await backend().store.actors.commit(commits);
    const filter = { deviceIds: undefined, status: 'failed' as const };
    const countOf = async (limit: number, after?: Position) =>
      (await backend().store.commands.listAll(tenantId, filter, limit, after)).count();
    const first = await backend().store.commands.listAll(tenantId, filter, 2);
    expect([await countOf(3), await countOf(2), await countOf(2, first.next ?? undefined)]).toEqual([3, null, null]);
  });
});

eachDatabase('a list of commands in a range of times', (backend) => {
  it('is read from an index, without commands of other times', async () => {
    const { database } = backend();
    const [tenantId, deviceId] = [newId(), newId()];
    const commits = Array.from({ length: 400 }, (_, n) =>
      commandCommit({ tenantId, columns: { device_id: deviceId, created_at: n } }),
    );
    await backend().store.actors.commit(commits);
    await database.write({ text: 'analyze commands', values: [] });
    const statements: Statement[] = [];
    const reading = async (statement: Statement) => statements.splice(statements.length, 0, statement);
    const store = commandStore({ read: reading } as unknown as Database);
    await store.listAll(tenantId, { deviceIds: undefined, from: 100, to: 110 }, 50);
    await store.listAll(tenantId, { deviceIds: undefined, from: 100, to: 110, requestedBy: newId() }, 50);
    await store.listAll(tenantId, { deviceIds: [deviceId], from: 100, to: 110 }, 50);
    const plans = [];
    for (const { text, values = [] } of statements.filter(({ name }) => !name?.endsWith('_edge'))) {
      const [row] = await database.read<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>({
        ...{ text: `explain (analyze, format json) ${text}`, values },
      });
      plans.push(scansOf(row?.['QUERY PLAN'][0].Plan));
    }
    const scan = { 'Index Name': expect.stringMatching(/^commands_of_(tenant|device)$/), 'Actual Rows': 10 };
    expect(plans).toMatchObject([[scan], [scan], [scan]]);
  });
});

eachDatabase('the devices with unreported commands', (backend) => {
  it.each([1, 500])('are found in the index of commands, for %i devices', async (count) => {
    const { database } = backend();
    const tenantId = newId();
    const all = Array.from({ length: 500 }, newId);
    const deviceIds = all.slice(0, count);
    const late = 10 * MAX_COMMAND_AGE_MS;
    const commits = Array.from({ length: 1_000 }, (_, n) => {
      const created_at = n < all.length ? late : n;
      return commandCommit({ tenantId, columns: { device_id: all[n % all.length] as string, created_at } });
    });
    await backend().store.actors.commit(commits);
    await database.write({ text: 'analyze commands', values: [] });
    let statement: Statement | undefined;
    const reading = async (one: Statement) => {
      statement = one;
      return [];
    };
    const devices = deviceIds.map((deviceId) => ({ deviceId, at: late }));
    await commandStore({ read: reading } as unknown as Database).devicesWithUnreportedCommands(tenantId, devices);
    expect(await backend().store.commands.devicesWithUnreportedCommands(tenantId, devices)).toEqual(new Set(deviceIds));
    const { text, values = [] } = statement as unknown as Statement;
    const [row] = await database.read<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>({
      ...{ text: `explain (analyze, format json) ${text}`, values },
    });
    const scans = scansOf(row?.['QUERY PLAN'][0].Plan).filter((scan) => scan['Node Type'] !== 'Function Scan');
    expect(scans).toMatchObject([{ 'Index Name': 'commands_of_device', 'Actual Loops': count, 'Actual Rows': 1 }]);
  });
});

interface PlanNode {
  'Node Type': string;
  'Actual Loops': number;
  'Index Name'?: string;
  'Actual Rows': number;
  Plans?: PlanNode[];
}

/** The nodes of a query plan that read a table. */
const scansOf = (plan: PlanNode | undefined): PlanNode[] =>
  plan === undefined ? [] : (plan.Plans?.flatMap(scansOf) ?? [plan]);
