import { expect, it } from 'vitest';
import type { Position } from '../../../src/domain/cursor.ts';
import type { Principal } from '../../../src/domain/values.ts';
import type { AuditFilter, AuditRow } from '../../../src/store/contract/audit.ts';
import { commandCommit, deviceCommit, journalEntry, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const DAY = 86_400_000;
const person = newId();
const user = (more: Partial<Principal> = {}): Principal => ({
  ...{ kind: 'user', id: person, via: 'rest', requestId: newId(), operation: 'commandDevice' },
  ...more,
});

function row(tenantId: string | null, at: number, more: Partial<AuditRow> = {}): AuditRow {
  const requestId = newId();
  return {
    ...{ id: newId(), tenantId, at, by: person, key: null, via: 'rest', action: 'createHome' },
    ...{ subject: 'home:x', outcome: 'done', requestId, address: '192.0.2.1', client: 'curl', count: 1, ...more },
  };
}

eachStore('the audit', (backend) => {
  const audit = () => backend().store.audit;
  const commit = (...actors: ReturnType<typeof commandCommit>[]) => backend().store.actors.commit(actors);
  const all = async (tenantId: string | null, filter: AuditFilter = {}, limit = 2) => {
    const items = [];
    let after: Position | undefined;
    for (let pages = 0; pages < 50; pages++) {
      const page = await audit().list(tenantId, filter, limit, after);
      items.push(...page.items);
      if (page.next === null) return items;
      after = page.next;
    }
    throw new Error('the list has no end');
  };

  it("returns users' changes of actors and its own rows in one list, newest first", async () => {
    const tenantId = newId();
    const by = user();
    const device: Principal = { kind: 'device', id: newId() };
    const command = commandCommit({
      tenantId,
      version: 3,
      journal: [
        journalEntry(1, { at: 100, by, event: 'request', data: { action: 'turn_on' } }),
        journalEntry(2, { at: 300, by: device, event: 'ack.received' }),
        journalEntry(3, { at: 400, by: user({ operation: 'cancelCommand', key: 'abcdefgh' }), event: 'cancel' }),
      ],
    });
    await commit(command);
    const home = row(tenantId, 200);
    await audit().append([home, row(newId(), 250), row(null, 260)]);
    const notified = await all(tenantId);
    expect(notified.map(({ action, at }) => [action, at])).toEqual([
      ['cancelCommand', 400],
      ['createHome', 200],
      ['commandDevice', 100],
    ]);
    const { id: _, tenantId: __, ...entry } = home;
    expect(notified[1]).toEqual(entry);
    expect(notified[2]).toEqual({
      ...{ at: 100, by: person, key: null, via: 'rest', action: 'commandDevice', outcome: 'done' },
      ...{ subject: `command:${command.ref.id}`, requestId: by.requestId },
      ...{ address: null, client: null, count: 1 },
    });
    expect(notified[0]).toMatchObject({ key: 'abcdefgh' });
    expect((await all(null)).map(({ at }) => at)).toContain(260);
  });

  it('contains the gateway’s reason for refusing a command, and names unknown operations by their event', async () => {
    const tenantId = newId();
    await commit(
      commandCommit({
        tenantId,
        journal: [journalEntry(1, { by: user(), event: 'request', data: { code: 'RESTRICTED_ACTION' } })],
      }),
      deviceCommit({
        tenantId,
        journal: [journalEntry(1, { at: 5, by: { kind: 'user', id: person }, event: 'rotate' })],
      }),
    );
    expect(await all(tenantId)).toMatchObject([
      { outcome: 'RESTRICTED_ACTION' },
      { action: 'device.rotate', outcome: 'done', via: null, requestId: null },
    ]);
  });

  it('pages through entries of one moment without missing or repeating any, during concurrent writes', async () => {
    const tenantId = newId();
    const at = 5_000;
    const commands = Array.from({ length: 7 }, () =>
      commandCommit({
        tenantId,
        version: 2,
        journal: [1, 2].map((version) => journalEntry(version, { at, by: user() })),
      }),
    );
    await commit(...commands);
    await audit().append(Array.from({ length: 6 }, () => row(tenantId, at)));
    const seen = [];
    let after: Position | undefined;
    do {
      const page = await audit().list(tenantId, {}, 3, after);
      seen.push(...page.items.map(({ requestId }) => requestId));
      after = page.next ?? undefined;
      await audit().append([row(tenantId, at + 1)]);
    } while (after);
    expect(seen.length).toBe(20);
    expect(new Set(seen).size).toBe(20);
  });

  it('filters by user, action, subject and time', async () => {
    const tenantId = newId();
    const other = newId();
    const command = commandCommit({
      tenantId,
      version: 3,
      journal: [1, 2, 3].map((n) => journalEntry(n, { at: n * 10, by: user({ id: n === 2 ? other : person }) })),
    });
    await commit(command);
    await audit().append([
      row(tenantId, 15, { by: other }),
      row(tenantId, 25, { action: 'deleteHome', subject: 'home:y' }),
    ]);
    const ats = async (filter: AuditFilter) => (await all(tenantId, filter, 1)).map(({ at }) => at);
    expect(await ats({ by: other })).toEqual([20, 15]);
    expect(await ats({ action: 'deleteHome' })).toEqual([25]);
    expect(await ats({ action: 'commandDevice', by: person })).toEqual([30, 10]);
    expect(await ats({ subject: `command:${command.ref.id}` })).toEqual([30, 20, 10]);
    expect(await ats({ subject: `device:${command.ref.id}` })).toEqual([]);
    expect(await ats({ subject: 'home:y' })).toEqual([25]);
    expect(await ats({ from: 15, to: 25 })).toEqual([20, 15]);
    expect(await ats({ by: person, to: 25 })).toEqual([10]);
  });

  it('reads a limited number of entries for one page, and continues with the next', async () => {
    const tenantId = newId();
    const rare = row(tenantId, 1, { action: 'rare' });
    const rows = Array.from({ length: 10_500 }, (_, n) => row(tenantId, 10 + n));
    await audit().append([rare, ...rows]);
    const first = await audit().list(tenantId, { action: 'rare' }, 10);
    expect(first.items).toEqual([]);
    expect(first.next).not.toBeNull();
    expect(await all(tenantId, { action: 'rare' })).toMatchObject([{ action: 'rare' }]);
  });

  it('stores an entry once, however often it is appended', async () => {
    const tenantId = newId();
    const one = row(tenantId, 1);
    await audit().append([one]);
    await audit().append([one, row(tenantId, 2)]);
    expect(await all(tenantId)).toHaveLength(2);
  });

  it('is pruned with the journal', async () => {
    const tenantId = newId();
    const now = 2_000_000_000_000;
    await audit().append([row(tenantId, now - 366 * DAY), row(tenantId, now - 364 * DAY)]);
    await backend().store.retention.prune(now, { commands: 90, journal: 365 }, 5_000);
    expect((await all(tenantId)).map(({ at }) => at)).toEqual([now - 364 * DAY]);
  });
});
