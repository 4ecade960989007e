import { describe, expect, it } from 'vitest';
import { type JsonObject, SYSTEM, type Uuid } from '../../../src/domain/values.ts';
import { type EntryPosition, entryPage, startPosition } from '../../../src/store/contract/entry-page.ts';
import {
  decisionEdge,
  examinedOfEach,
  LATEST_DECISION_MS,
  type TimelineRange,
} from '../../../src/store/contract/timeline.ts';
import type { ActorCommit, Position } from '../../../src/store/contract.ts';
import { commandCommit, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const START = 1_780_000_000_000;

interface Planned {
  tenantId: Uuid;
  deviceId: Uuid;
  at: number;
  status?: 'succeeded' | 'rejected' | 'expired' | 'cancelled' | 'awaiting_confirmation';
  planId?: Uuid;
  /** When the wait for a confirmation ended; null: it has not. */
  decidedAt?: number | null;
  critical?: boolean;
}

const waiting = { lifecycle: 'awaiting_confirmation', verification: 'idle' };

function command({
  tenantId,
  deviceId,
  at,
  status = 'succeeded',
  planId,
  decidedAt,
  critical = true,
}: Planned): ActorCommit {
  const needed = decidedAt !== undefined;
  const to = { lifecycle: status === 'succeeded' ? { written: 'dispatched' } : status, verification: 'idle' };
  return commandCommit({
    tenantId,
    version: 3,
    fixed: {
      origin: { requestId: 'r', plan: planId === undefined ? null : { id: planId, stepId: 's', compensation: null } },
      confirmation: null,
    },
    columns: { device_id: deviceId, created_at: at, status, critical: needed && critical },
    journal: [
      { version: 1, at, by: SYSTEM, event: 'request', from: null, to: needed ? waiting : to, data: null },
      ...(decidedAt == null
        ? []
        : [
            { version: 2, at: decidedAt, by: SYSTEM, event: 'confirm', from: waiting, to, data: null },
            {
              version: 3,
              at: decidedAt + 1,
              by: SYSTEM,
              event: 'ack',
              from: to,
              to: { lifecycle: 'succeeded' },
              data: null,
            },
          ]),
    ],
  });
}

const range = (deviceIds: Uuid[], changes: Partial<TimelineRange> = {}): TimelineRange => ({
  ...{ deviceIds, from: 0, before: startPosition(undefined, undefined), limit: 10, ...changes },
});

eachStore('the timeline', (backend) => {
  const timeline = () => backend().store.timeline;
  const commitAll = (...commits: ActorCommit[]) => backend().store.actors.commit(commits);
  const idsOf = (entries: readonly EntryPosition[]) => entries.map(({ id }) => id);

  it('has the journal entries of a report, of its commands and tenant and near its time', async () => {
    const [tenantId, deviceId] = [newId(), newId()];
    const entry = (version: number, at: number, event: string, data: JsonObject | null) => ({
      ...{ version, at, by: SYSTEM, event, from: null, to: { lifecycle: 'succeeded' }, data },
    });
    const withJournal = (journal: ActorCommit['journal']): ActorCommit => ({
      ...command({ tenantId, deviceId, at: START }),
      journal,
    });
    const one = withJournal([
      entry(1, START + 2, 'ack.received', { word: 'succeeded', sequence_number: 7 }),
      entry(2, START + 1, 'state.observed', { matches: true, sequence_number: 7 }),
      entry(3, START + 3, 'state.observed', { matches: true, sequence_number: 8 }),
    ]);
    const other = withJournal([
      entry(1, START + 3, 'ack.received', { word: 'accepted' }),
      entry(2, START + 86_400_000, 'ack.received', { word: 'succeeded', sequence_number: 7 }),
      entry(3, START + 4, 'request', { sequence_number: 7 }),
    ]);
    const unasked = withJournal([entry(3, START, 'ack.received', { sequence_number: 7 })]);
    await commitAll(one, other, unasked);
    const report = { commandIds: [one.ref.id, other.ref.id], sequence: 7, receivedAt: START };
    const found = await timeline().reportEntries(tenantId, report);
    expect(found.map(({ commandId, entry: { event } }) => [commandId, event])).toEqual([
      [one.ref.id, 'state.observed'],
      [one.ref.id, 'ack.received'],
    ]);
    expect(found[0]?.entry).toMatchObject({ version: 2, at: START + 1, data: { matches: true } });
    expect(await timeline().reportEntries(newId(), report)).toEqual([]);
    expect(await timeline().reportEntries(tenantId, { ...report, commandIds: [] })).toEqual([]);
  });

  it('has the commands of several devices of a tenant, newest first, from a time and before a position', async () => {
    const [tenantId, one, other, third] = [newId(), newId(), newId(), newId()];
    const commits = [5, 4, 3, 2, 1].map((age, n) =>
      command({ tenantId, deviceId: n % 2 === 0 ? one : other, at: START - age }),
    );
    await commitAll(
      ...commits,
      command({ tenantId, deviceId: third, at: START }),
      command({ tenantId: newId(), deviceId: one, at: START }),
    );
    const newest = commits.map(({ ref }) => ref.id).reverse();
    const all = await timeline().commands(tenantId, ['command', 'plan', 'refusal'], range([one, other]));
    expect(idsOf(all.entries)).toEqual(newest);
    expect(all.edge).toBeNull();
    expect(all.entries[0]?.command).toMatchObject({ ref: { kind: 'command', id: newest[0] }, tenantId });
    const [, second] = all.entries;
    const rest = range([one, other], { before: second as EntryPosition, from: START - 4 });
    const part = await timeline().commands(tenantId, ['command', 'plan', 'refusal'], rest);
    expect(idsOf(part.entries)).toEqual(newest.slice(2, 4));
    expect(await timeline().commands(newId(), ['command'], range([one]))).toEqual({ entries: [], edge: null });
  });

  it('divides commands into refused ones, those of plans, and others', async () => {
    const [tenantId, deviceId, planId] = [newId(), newId(), newId()];
    const plain = command({ tenantId, deviceId, at: START });
    const ofPlan = command({ tenantId, deviceId, at: START + 1, planId });
    const refused = command({ tenantId, deviceId, at: START + 2, status: 'rejected' });
    const refusedOfPlan = command({ tenantId, deviceId, at: START + 3, status: 'rejected', planId });
    await commitAll(plain, ofPlan, refused, refusedOfPlan);
    const of = async (...groups: ('command' | 'plan' | 'refusal')[]) =>
      idsOf((await timeline().commands(tenantId, groups, range([deviceId]))).entries);
    expect(await of('command')).toEqual([plain.ref.id]);
    expect(await of('plan')).toEqual([ofPlan.ref.id]);
    expect(await of('refusal')).toEqual([refusedOfPlan.ref.id, refused.ref.id]);
    expect(await of('command', 'refusal')).toEqual([refusedOfPlan.ref.id, refused.ref.id, plain.ref.id]);
  });

  it('examines a limited number of commands of each device and reports where it stopped', async () => {
    const tenantId = newId();
    // So many devices that five commands of each are examined; all but one have none.
    const deviceIds = Array.from({ length: 2_000 }, newId);
    const busy = deviceIds[7] as Uuid;
    const commits = Array.from({ length: 12 }, (_, n) => command({ tenantId, deviceId: busy, at: START + n }));
    await commitAll(...commits);
    const newest = commits.map(({ ref }) => ref.id).reverse();
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const asked = range(deviceIds, { before: startPosition(undefined, after) });
      expect(examinedOfEach(asked, ['command', 'plan', 'refusal'])).toBe(5);
      const { entries, edge } = await timeline().commands(tenantId, ['command', 'plan', 'refusal'], asked);
      const page = entryPage(entries, edge, { limit: 10, after });
      expect(page.items.length).toBeLessThanOrEqual(5);
      seen.push(...idsOf(page.items));
      after = page.next ?? undefined;
    } while (after !== undefined);
    expect(seen).toEqual(newest);
  });

  it('has the end of each wait for a confirmation at its own time, although other commands are newer', async () => {
    const [tenantId, deviceId] = [newId(), newId()];
    const early = command({ tenantId, deviceId, at: START, decidedAt: START + 100 });
    const late = command({ tenantId, deviceId, at: START + 10, decidedAt: START + 20, status: 'cancelled' });
    const expired = command({ tenantId, deviceId, at: START + 1, decidedAt: START + 50, status: 'expired' });
    const dryRun = command({
      tenantId,
      deviceId,
      at: START,
      decidedAt: START + 60,
      status: 'expired',
      critical: false,
    });
    const open = command({ tenantId, deviceId, at: START, decidedAt: null, status: 'awaiting_confirmation' });
    await commitAll(early, late, expired, dryRun, open, command({ tenantId, deviceId, at: START + 90 }));
    const all = await timeline().decisions(tenantId, range([deviceId]));
    expect(all.entries.map(({ at, id, n }) => ({ at, id, n }))).toEqual([
      { at: START + 100, id: early.ref.id, n: 2 },
      { at: START + 50, id: expired.ref.id, n: 2 },
      { at: START + 20, id: late.ref.id, n: 2 },
    ]);
    expect(all.entries[0]?.decision).toMatchObject({ event: 'confirm', from: waiting, by: SYSTEM });
    // The request is older than the range, the decision is in it.
    const some = range([deviceId], { from: START + 30, before: all.entries[0] as EntryPosition });
    expect(idsOf((await timeline().decisions(tenantId, some)).entries)).toEqual([expired.ref.id]);
    expect((await timeline().decisions(newId(), range([deviceId]))).entries).toEqual([]);
  });

  it.each([
    ['different times', 10, 15],
    ['the same time', 0, 0],
  ])('has each decision once over pages, of more commands of %s than a page examines', async (_, apart, wait) => {
    const tenantId = newId();
    // So many devices that 20 commands of each are examined; all but one have none.
    const deviceIds = Array.from({ length: 500 }, newId);
    const deviceId = deviceIds[7] as Uuid;
    const times = Array.from({ length: 130 }, (_, n) => START + n * apart);
    const commits = times.map((at) => command({ tenantId, deviceId, at, decidedAt: at + wait }));
    await commitAll(...commits);
    const seen: string[] = [];
    let after: Position | undefined;
    do {
      const { entries, edge } = await timeline().decisions(
        tenantId,
        range(deviceIds, { before: startPosition(undefined, after), limit: 50 }),
      );
      const page = entryPage(entries, edge, { limit: 50, after });
      expect(page.items.length).toBeGreaterThan(0);
      seen.push(...idsOf(page.items));
      after = page.next ?? undefined;
    } while (after !== undefined);
    expect(seen).toHaveLength(130);
    expect(new Set(seen)).toEqual(new Set(commits.map(({ ref }) => ref.id)));
  });

  it('takes the number of a position that no entry has', async () => {
    const before = { at: START, id: newId(), n: 999_999_999_999_999 };
    const none = { entries: [], edge: null };
    expect(await timeline().commands(newId(), ['command'], range([newId()], { before }))).toEqual(none);
    expect(await timeline().decisions(newId(), range([newId()], { before }))).toEqual(none);
  });
});

describe('the edge of decisions that were not examined', () => {
  const oldest = { at: START, id: newId(), n: 0 };

  it('is the latest time of a decision on an older command', () => {
    const middle = { at: START + 2 * LATEST_DECISION_MS, id: newId(), n: 0 };
    expect(decisionEdge(middle, oldest)).toEqual({ ...oldest, at: START + LATEST_DECISION_MS });
  });

  it('is not newer than the command in the middle', () => {
    const middle = { at: START + 5, id: newId(), n: 0 };
    expect(decisionEdge(middle, oldest)).toEqual(middle);
  });
});
